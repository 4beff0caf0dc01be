"""What a load test asks: the built-in prompts, files of many forms, or made-up words; chosen, filtered and drawn."""

from trtspec.loadtest.prompts.builtin import warmup_prompts
from trtspec.loadtest.prompts.choice import PromptChoice, choose
from trtspec.loadtest.prompts.drawing import draw
from trtspec.loadtest.prompts.loading import load_prompts
from trtspec.loadtest.prompts.prefix import SharedHead, shared_head
from trtspec.loadtest.prompts.prompt import BUILTIN, BUILTIN_60, HUMAN_EVAL, RANDOM, Entropy, Prompt, PromptSet
from trtspec.loadtest.prompts.synthetic import Lengths, made_prompts

__all__ = [
    "BUILTIN",
    "BUILTIN_60",
    "HUMAN_EVAL",
    "RANDOM",
    "Entropy",
    "Lengths",
    "Prompt",
    "PromptChoice",
    "PromptSet",
    "SharedHead",
    "choose",
    "draw",
    "load_prompts",
    "made_prompts",
    "shared_head",
    "warmup_prompts",
]
