#include <algorithm>

#include "kernels/check_cuda.h"
#include "kernels/rows.h"
#include "kernels/token_types.h"

namespace batchflow::kernels::on_gpu {
namespace {

constexpr int kThreads = 256;
constexpr std::uint64_t kBlocksMost = 1u << 20;

unsigned blocks_for(std::uint64_t items) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>((items + kThreads - 1) / kThreads, 1, kBlocksMost));
}

// Word by word; `Word` is as wide as the rows and both addresses allow.
template <class Word>
__global__ void __launch_bounds__(kThreads) gather(const RowGather rows, std::uint64_t words) {
  const auto* const cache = reinterpret_cast<const Word*>(rows.cache);
  auto* const out = reinterpret_cast<Word*>(rows.out);
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < rows.count * words;
       i += step) {
    const std::uint64_t row = i / words;
    out[i] = cache[rows.index[row] * words + (i - row * words)];
  }
}

template <class Word>
bool gathered_by(const RowGather& rows, cudaStream_t stream) {
  const std::uint64_t all = reinterpret_cast<std::uintptr_t>(rows.cache) |
                            reinterpret_cast<std::uintptr_t>(rows.out) | rows.bytes;
  if (all % sizeof(Word) != 0) return false;
  const std::uint64_t words = rows.bytes / sizeof(Word);
  gather<Word><<<blocks_for(rows.count * words), kThreads, 0, stream>>>(rows, words);
  return true;
}

// The sequence that a packed token is of: the last that begins at or before it.
__device__ std::uint64_t sequence_of(const Sequences& from, std::int64_t token) {
  std::uint64_t least = 0, most = from.count - 1;
  while (least < most) {
    const std::uint64_t middle = least + (most - least + 1) / 2;
    if (from.offsets[middle] <= token)
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads) pack(const Sequences from, Out* out) {
  const std::int64_t count = from.offsets[from.count];
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  std::uint64_t sequence = ~std::uint64_t{0};
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    if (sequence == ~std::uint64_t{0} || i >= from.offsets[sequence + 1])
      sequence = sequence_of(from, i);
    const auto* const tokens = static_cast<const In*>(from.starts[sequence]);
    out[i] = static_cast<Out>(tokens[i - from.offsets[sequence]]);
  }
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads) fit(const TokenRows rows, Out* out) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < rows.from.count * rows.length; i += step) {
    const std::uint64_t row = i / rows.length, at = i - row * rows.length;
    const auto length =
        static_cast<std::uint64_t>(rows.from.offsets[row + 1] - rows.from.offsets[row]);
    const auto* const tokens = static_cast<const In*>(rows.from.starts[row]);
    out[i] = static_cast<Out>(at < length ? static_cast<std::int64_t>(tokens[at]) : rows.pad);
  }
}

}  // namespace

void gather_rows(const RowGather& rows, Stream given) {
  const auto stream = static_cast<cudaStream_t>(given);
  if (rows.count == 0 || rows.bytes == 0) return;
  gathered_by<uint4>(rows, stream) || gathered_by<std::uint32_t>(rows, stream) ||
      gathered_by<std::uint8_t>(rows, stream);
  BF_CUDA(cudaGetLastError());
}

void pack_tokens(const TokenPacking& packing, Stream stream) {
  const Sequences& from = packing.from;
  if (from.count == 0) return;
  with_tokens(from.token, packing.to, [&](auto in, auto out) {
    // Only the GPU knows how many tokens there are.
    pack<decltype(in)><<<1024, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        from, static_cast<decltype(out)*>(packing.out));
  });
  BF_CUDA(cudaGetLastError());
}

void fit_tokens(const TokenRows& rows, Stream stream) {
  if (rows.from.count == 0 || rows.length == 0) return;
  with_tokens(rows.from.token, rows.to, [&](auto in, auto out) {
    fit<decltype(in)>
        <<<blocks_for(rows.from.count * rows.length), kThreads, 0,
           static_cast<cudaStream_t>(stream)>>>(rows, static_cast<decltype(out)*>(rows.out));
  });
  BF_CUDA(cudaGetLastError());
}

}  // namespace batchflow::kernels::on_gpu
