"""The pair that runs anywhere: a small public target and the draft distilled from it."""
