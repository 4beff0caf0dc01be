"""Whether speculation changes answers: greedy texts, sampled distributions, and scores of small labelled sets."""

from trtspec.verification.options import VerifyOptions, verify_options
from trtspec.verification.run import FILE_NAME, VerifyResult, verify
from trtspec.verification.schema import verification_schema

__all__ = ["FILE_NAME", "VerifyOptions", "VerifyResult", "verification_schema", "verify", "verify_options"]
