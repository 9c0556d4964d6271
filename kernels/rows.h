// Rows and sequences: gathered out of a cache of samples, packed, cut and padded.
//
// on_cpu is the reference, on_gpu does the same on a GPU. All pointers are to memory of the
// processor that it runs on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/where.h"

namespace batchflow::kernels {

// Rows `index[0]`, `index[1]` and so on of a cache of rows of `bytes` bytes, one behind the other.
struct RowGather {
  const std::byte* cache = nullptr;
  std::uint64_t bytes = 0;  // of a row
  const std::uint64_t* index = nullptr;
  std::uint64_t count = 0;
  std::byte* out = nullptr;
};

enum class Token : std::uint8_t { u16, i32, i64 };
constexpr std::size_t bytes_of(Token token) {
  return token == Token::u16 ? 2 : token == Token::i32 ? 4 : 8;
}

// Sequences of tokens that lie anywhere.
struct Sequences {
  Token token = Token::u16;
  const void* const* starts = nullptr;
  const std::int64_t* offsets = nullptr;  // count + 1: of each in the packed tokens
  std::uint64_t count = 0;
};
// One behind the other, as `to`, which has room for offsets[count]. A token that `to` cannot hold
// keeps its low bits.
struct TokenPacking {
  Sequences from;
  Token to = Token::i32;
  void* out = nullptr;
};
// Each as a row of `length` tokens, cut, or padded with `pad`.
struct TokenRows {
  Sequences from;
  Token to = Token::i32;
  std::uint64_t length = 0;
  std::int64_t pad = 0;
  void* out = nullptr;
};

namespace on_cpu {
void gather_rows(const RowGather& gather, Stream stream = nullptr);
void pack_tokens(const TokenPacking& packing, Stream stream = nullptr);
void fit_tokens(const TokenRows& rows, Stream stream = nullptr);
}  // namespace on_cpu
namespace on_gpu {
void gather_rows(const RowGather& gather, Stream stream);
void pack_tokens(const TokenPacking& packing, Stream stream);
void fit_tokens(const TokenRows& rows, Stream stream);
}  // namespace on_gpu

}  // namespace batchflow::kernels
