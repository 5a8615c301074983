// Atomic adds of 8 bytes to counters that lie a stride apart in a GPU's memory, issued by that GPU or by a peer. Compiled at run time.
//
// One block a channel, one thread a block: as a channel's warp signals its own tail. The sum is not read back by the kernel, so that
// the adds need no answer, as a signal needs none.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void issue(char *base, size_t stride, long num_adds, bool across) {
    auto *counter = reinterpret_cast<unsigned long long *>(base + blockIdx.x * stride);
    for (long add = 0; add < num_adds; add++) {
        if (across) atomicAdd_system(counter, 1ULL);
        else atomicAdd(counter, 1ULL);
    }
}

__global__ void nothing() {}

#define CHECK(call) do { cudaError_t code = (call); if (code != cudaSuccess) return -(int64_t)code; } while (0)

// Nanoseconds of the kernel by events, launched once before; the counters' sum in *sum. Negative: minus CUDA's error code.
extern "C" int64_t stride_cuda(int issuer, int owner, long num_channels, size_t stride, long num_adds, uint64_t *sum) {
    char *base = nullptr;
    size_t size = (num_channels - 1) * stride + sizeof(uint64_t);
    CHECK(cudaSetDevice(owner));
    CHECK(cudaMalloc(&base, size));
    CHECK(cudaMemset(base, 0, size));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(issuer));
    if (issuer != owner) {
        cudaError_t code = cudaDeviceEnablePeerAccess(owner, 0);
        if (code != cudaSuccess && code != cudaErrorPeerAccessAlreadyEnabled) return -(int64_t)code;
        cudaGetLastError();
    }
    cudaEvent_t began, ended;
    CHECK(cudaEventCreate(&began));
    CHECK(cudaEventCreate(&ended));
    issue<<<num_channels, 1>>>(base, stride, 1, issuer != owner);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(began));
    issue<<<num_channels, 1>>>(base, stride, num_adds, issuer != owner);
    CHECK(cudaEventRecord(ended));
    CHECK(cudaEventSynchronize(ended));
    float elapsed_ms = 0;
    CHECK(cudaEventElapsedTime(&elapsed_ms, began, ended));
    *sum = 0;
    for (long channel = 0; channel < num_channels; channel++) {
        uint64_t value = 0;
        CHECK(cudaMemcpy(&value, base + channel * stride, sizeof value, cudaMemcpyDefault));
        *sum += value - 1; // the first launch's
    }
    cudaEventDestroy(began);
    cudaEventDestroy(ended);
    CHECK(cudaSetDevice(owner));
    CHECK(cudaFree(base));
    return (int64_t)(elapsed_ms * 1e6);
}

// Nanoseconds between two events with an empty kernel between them (num_kernels 1), or with nothing (0).
extern "C" int64_t floor_cuda(int num_kernels) {
    cudaEvent_t began, ended;
    CHECK(cudaEventCreate(&began));
    CHECK(cudaEventCreate(&ended));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(began));
    for (int i = 0; i < num_kernels; i++) nothing<<<1, 1>>>();
    CHECK(cudaEventRecord(ended));
    CHECK(cudaEventSynchronize(ended));
    float elapsed_ms = 0;
    CHECK(cudaEventElapsedTime(&elapsed_ms, began, ended));
    cudaEventDestroy(began);
    cudaEventDestroy(ended);
    return (int64_t)(elapsed_ms * 1e6);
}
