"""What can be resized: one small interface, and a driver for each kind of target.

`engine` starts the engine of `ep_serve`; `vllm` speaks to a vLLM server with elastic endpoints; `gpustack` to a GPUStack
`ModelDeployment` through the Kubernetes API.
"""
