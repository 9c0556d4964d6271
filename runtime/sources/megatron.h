// The index of documents that Megatron-LM's tools write beside the tokens: NAME.idx and NAME.bin.
//
//   index := "MMIDIDX\0\0" (9), version = 1 (8), type (1), sequences (8), entries (8),
//            tokens of each sequence (4 each), offset of each in NAME.bin (8 each),
//            the first sequence of each document, and their number (entries, 8 each)
//
// All numbers are little-endian. A document is one sequence or several, which follow one another.
// Nothing in the file is trusted: a sequence must begin where the one before it ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/batch/batch_spec.h"
#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

inline constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};

class MegatronIndex {
 public:
  // Three views of the same file, since its lists are read side by side.
  MegatronIndex(ByteView& lengths, ByteView& offsets, ByteView& documents)
      : lengths_(lengths), offsets_(offsets), first_sequences_(documents) {}

  // Reads the head. `tokens_bytes`: the size of NAME.bin. Answers what is wrong; empty: nothing.
  std::string open(Bytes tokens_bytes);
  batch::ElementType type() const { return type_; }
  std::uint64_t documents() const { return documents_; }

  struct Document {
    std::uint64_t offset = 0;
    Bytes bytes = 0;
  };
  // The next document; false: there is no more, or `problem` is not empty.
  bool next(Document& document, std::string& problem);
  // Where the last sequence ends. REQUIRES: next() has answered false, without a problem
  Bytes end() const { return end_; }

 private:
  ByteView& lengths_;
  ByteView& offsets_;
  ByteView& first_sequences_;
  batch::ElementType type_ = batch::ElementType::u8;
  Bytes tokens_bytes_ = 0;
  std::uint64_t sequences_ = 0, documents_ = 0;
  std::uint64_t offsets_at_ = 0, documents_at_ = 0;  // where these lists begin
  std::uint64_t sequence_ = 0, document_ = 0;        // the next ones
  Bytes end_ = 0;                                    // of the sequence before
};

}  // namespace batchflow::sources
