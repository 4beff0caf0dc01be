"""Distils a draft from a target: prompts, the target's answers with soft labels, training, export."""
