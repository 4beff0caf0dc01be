"""Pages of metrics as servers export them, and a server that exports them one after another."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TRITON = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{{model="tensorrt_llm_bls",version="1"}} {requests}
nv_inference_request_success{{model="tensorrt_llm",version="1"}} {inner}
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{{model="tensorrt_llm_bls",version="1"}} {queue}
nv_inference_queue_duration_us{{model="tensorrt_llm",version="1"}} 999999
# TYPE nv_inference_first_response_histogram_ms histogram
nv_inference_first_response_histogram_ms_bucket{{model="tensorrt_llm_bls",version="1",le="100"}} 3
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"}} {kv}
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="used",model="tensorrt_llm",version="1"}} 12
nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="fraction",model="tensorrt_llm_draft",version="1"}} 0.25
# TYPE nv_energy_consumption counter
nv_energy_consumption{{gpu_uuid="GPU-1"}} {energy}
nv_energy_consumption{{gpu_uuid="GPU-2"}} {energy}
"""
VLLM = """\
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="llama"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.5
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="llama"} 1.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="llama"} 4.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="llama"} 6.0
# TYPE process_cpu_seconds counter
process_cpu_seconds_total 12.0
"""


def triton(requests: int = 0, inner: int = 0, queue: int = 0, kv: float = 0.0, energy: float = 0.0) -> str:
    """A page of Triton with TensorRT-LLM; times in µs, energy in J of each of two GPUs."""
    return TRITON.format(requests=requests, inner=inner, queue=queue, kv=kv, energy=energy)


@contextmanager
def serving(pages: Sequence[str], status: int = 200) -> Iterator[str]:
    """The address of a server that answers with one page after the other, the last one for ever."""
    left = list(pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (left.pop(0) if len(left) > 1 else left[0]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
