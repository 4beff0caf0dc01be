"""The acceptance run on a GPU box (`scripts/gpu-acceptance`): the whole path once, and what to send back."""
