"""Before building: memory, placement, speed-up and cost, as pure functions."""
