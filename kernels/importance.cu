#include <cub/device/device_scan.cuh>

#include "kernels/check_cuda.h"
#include "kernels/importance.h"
#include "kernels/quartiles.h"

namespace batchflow::kernels {
namespace {

// Scores as whole numbers of the same order, of which digits are counted: from the highest on, only
// those of numbers that begin as the one that is looked for does.
constexpr int kDigits = 3, kBins = 1 << 11;
BF_ANYWHERE constexpr int digit_bits(int digit) {
  return digit == 2 ? 10 : 11;
}
constexpr int kThreads = 512;

struct Selection {
  std::uint32_t prefix[kRanks];
  std::uint64_t rank[kRanks];  // among the numbers with this prefix
  std::uint64_t counts[kRanks][kBins];
};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

struct Add {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

// The running sum of weights of 32 bits, with 64. Null: how much memory that takes.
std::size_t sum_weights(std::byte* memory, std::size_t bytes, const std::uint32_t* weights,
                        std::uint64_t* ends, std::uint64_t samples, cudaStream_t stream) {
  BF_CUDA(cub::DeviceScan::InclusiveScanInit(memory, bytes, weights, ends, Add{}, std::uint64_t{0},
                                             samples, stream));
  return bytes;
}

__device__ std::uint32_t ordered(float score) {
  if (score != score || score == 0) score = 0;
  const std::uint32_t bits = __float_as_uint(score);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ float from_ordered(std::uint32_t bits) {
  return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

BF_ANYWHERE constexpr int shift_of(int digit) {
  int shift = 32;
  for (int i = 0; i <= digit; ++i) shift -= digit_bits(i);
  return shift;
}

// Ranks with equal prefixes count together, with the first of them.
__device__ bool counts_with_another(const std::uint32_t* prefix, int rank) {
  for (int i = 0; i < rank; ++i)
    if (prefix[i] == prefix[rank]) return true;
  return false;
}

template <int digit>
__global__ void __launch_bounds__(kThreads)
    count_digits(const float* scores, std::uint64_t samples, Selection* selection) {
  constexpr int ranks = digit == 0 ? 1 : kRanks;
  constexpr int shift = shift_of(digit), bins = 1 << digit_bits(digit);
  constexpr int above = digit == 0 ? 0 : shift + digit_bits(digit);
  __shared__ std::uint32_t counts[ranks][bins];
  std::uint32_t prefix[ranks];
  bool mine[ranks];
  for (int r = 0; r < ranks; ++r) {
    prefix[r] = selection->prefix[r];
    mine[r] = digit == 0 || !counts_with_another(selection->prefix, r);
  }
  for (int i = threadIdx.x; i < ranks * bins; i += kThreads) counts[i / bins][i % bins] = 0;
  __syncthreads();
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < samples;
       i += step) {
    const std::uint32_t key = ordered(scores[i]);
    const std::uint32_t bin = key >> shift & (bins - 1);
#pragma unroll
    for (int r = 0; r < ranks; ++r)
      if (digit == 0 || (mine[r] && key >> above == prefix[r])) atomicAdd(&counts[r][bin], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < ranks * bins; i += kThreads) {
    const std::uint32_t count = counts[i / bins][i % bins];
    if (count > 0)
      atomicAdd(reinterpret_cast<unsigned long long*>(&selection->counts[i / bins][i % bins]),
                static_cast<unsigned long long>(count));
  }
}

// A warp for each rank finds its digit, and begins the next. Lane by lane in turn: of each 64 bins.
template <int digit>
__global__ void choose_digits(std::uint64_t samples, Selection* selection, ScoreStatistics* out) {
  constexpr int bins = 1 << digit_bits(digit), each = bins / 32;
  const int r = threadIdx.x / 32, lane = threadIdx.x % 32;
  __shared__ std::uint32_t before[kRanks];
  if (lane == 0) before[r] = selection->prefix[r];
  __syncthreads();
  int with = digit == 0 ? 0 : r;
  for (int i = r; digit > 0 && i-- > 0;)
    if (before[i] == before[r]) with = i;
  const std::uint64_t rank = digit == 0 ? rank_of(r, samples) : selection->rank[r];
  const std::uint64_t* const counts = selection->counts[with] + lane * each;
  std::uint64_t sum = 0;
  for (int i = 0; i < each; ++i) sum += counts[i];
  std::uint64_t end = sum;
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const std::uint64_t other = __shfl_up_sync(~0u, end, lanes);
    if (lane >= lanes) end += other;
  }
  std::uint64_t at = end - sum;
  if (rank >= at && rank < end) {
    int bin = 0;
    while (rank >= at + counts[bin]) at += counts[bin++];
    selection->rank[r] = rank - at;
    selection->prefix[r] = (digit == 0 ? 0 : before[r] << digit_bits(digit)) |
                           static_cast<std::uint32_t>(lane * each + bin);
  }
  __syncthreads();
  if constexpr (digit + 1 < kDigits) {
    for (int i = threadIdx.x; i < kRanks * kBins; i += kRanks * 32)
      selection->counts[i / kBins][i % kBins] = 0;
  } else if (threadIdx.x == 0) {
    const auto at_quartile = [&](int which) {
      return quartile(which, samples, from_ordered(selection->prefix[2 * which]),
                      from_ordered(selection->prefix[2 * which + 1]));
    };
    *out = {at_quartile(0), at_quartile(1), at_quartile(2)};
  }
}

__global__ void normalise(const float* scores, std::uint64_t samples,
                          const ScoreStatistics* statistics, float* out) {
  const ScoreStatistics known = *statistics;
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < samples; i += step)
    out[i] = known.normalised(scores[i]);
}

__global__ void draw(const std::uint64_t* ends, std::uint64_t samples, Draws draws,
                     std::uint64_t* out) {
  using Wide = unsigned __int128;
  const std::uint64_t total = ends[samples - 1];
  const std::uint64_t start = __umul64hi(draws.random, total);
  const bool narrow = Wide{draws.count} * total <= Wide{~std::uint64_t{0}} - total;
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; k < draws.count;
       k += step) {
    const std::uint64_t point =
        narrow ? (k * total + start) / draws.count
               : static_cast<std::uint64_t>((Wide{k} * total + start) / draws.count);
    std::uint64_t least = 0, most = samples - 1;
    while (least < most) {
      const std::uint64_t middle = least + (most - least) / 2;
      if (ends[middle] <= point)
        least = middle + 1;
      else
        most = middle;
    }
    out[k] = least;
  }
}

unsigned blocks_for(std::uint64_t count) {
  int device = 0, processors = 1;
  BF_CUDA(cudaGetDevice(&device));
  BF_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  const std::uint64_t enough = (count + kThreads - 1) / kThreads;
  const auto most = static_cast<std::uint64_t>(processors) * 4;
  return static_cast<unsigned>(enough < most ? enough : most);
}

template <int digit>
void select_digit(const float* scores, std::uint64_t samples, Selection* selection,
                  ScoreStatistics* out, cudaStream_t stream) {
  count_digits<digit><<<blocks_for(samples), kThreads, 0, stream>>>(scores, samples, selection);
  choose_digits<digit><<<1, kRanks * 32, 0, stream>>>(samples, selection, out);
}

}  // namespace

std::size_t statistics_scratch_bytes() {
  return aligned(sizeof(Selection));
}
std::size_t draw_scratch_bytes(std::uint64_t samples) {
  return aligned(samples * sizeof(std::uint64_t)) +
         aligned(sum_weights(nullptr, 0, nullptr, nullptr, samples, nullptr));
}

namespace on_gpu {

void score_statistics(const float* scores, std::uint64_t samples, ScoreStatistics* out,
                      std::byte* scratch, Stream given) {
  const auto stream = static_cast<cudaStream_t>(given);
  auto* const selection = reinterpret_cast<Selection*>(scratch);
  BF_CUDA(cudaMemsetAsync(selection, 0, sizeof *selection, stream));
  select_digit<0>(scores, samples, selection, out, stream);
  select_digit<1>(scores, samples, selection, out, stream);
  select_digit<2>(scores, samples, selection, out, stream);
  BF_CUDA(cudaGetLastError());
}

void normalise_scores(const float* scores, std::uint64_t samples, const ScoreStatistics* statistics,
                      float* out, Stream stream) {
  normalise<<<blocks_for(samples), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      scores, samples, statistics, out);
  BF_CUDA(cudaGetLastError());
}

void draw_by_weight(const std::uint32_t* weights, std::uint64_t samples, const Draws& draws,
                    std::uint64_t* out, std::byte* scratch, Stream given) {
  const auto stream = static_cast<cudaStream_t>(given);
  if (draws.count == 0) return;
  auto* const ends = reinterpret_cast<std::uint64_t*>(scratch);
  const std::size_t bytes = sum_weights(nullptr, 0, nullptr, nullptr, samples, stream);
  sum_weights(scratch + aligned(samples * sizeof *ends), bytes, weights, ends, samples, stream);
  draw<<<blocks_for(draws.count), kThreads, 0, stream>>>(ends, samples, draws, out);
  BF_CUDA(cudaGetLastError());
}

}  // namespace on_gpu
}  // namespace batchflow::kernels
