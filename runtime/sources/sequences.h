// Documents become sequences of N tokens: the rule, and which document comes into which sequence.
//
// A document is a sample of one list of whole numbers. Its lengths alone decide where it comes, so
// a plan is a function of the version of the documents and of the rule (order rules, section 10).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "runtime/sources/document_order.h"

namespace batchflow::sources {

// What a user says of sequences, beside the number of their tokens.
struct SequenceRule {
  static constexpr std::uint64_t kLengthMost = std::uint64_t{1} << 20;

  // `concat`: end to end, cut every N tokens. `whole`: each document in one sequence. `buckets`:
  // documents of like length, each in a row of its own. Empty: as the format of the data has it.
  std::string packing;
  std::uint64_t seed = 0;                       // of the order of the documents
  std::optional<std::uint32_t> end_token = {};  // that follows each document
  // Not 0, of `whole`: so many sequences are one sample, and all samples cost the same.
  std::uint32_t rows = 0;
  // Not empty: documents of these sources, each at its share of the tokens (document_order.h).
  std::string mixture = {};

  // What is wrong with it for sequences of so many tokens; empty: nothing.
  std::string problem(std::uint64_t length) const;
  std::string text(std::uint64_t length) const;
  friend bool operator==(const SequenceRule&, const SequenceRule&) = default;
};
// The ways of packing, for messages.
const std::vector<std::string_view>& packing_names();

// A part of a document; the token that ends a document counts as its last. Or a gap: places between
// two parts that nothing fills.
struct DocumentPiece {
  static constexpr std::uint64_t kGap = UINT64_MAX;  // of `document`
  std::uint64_t document = 0;
  std::uint64_t from = 0;
  std::uint64_t tokens = 0;
  friend bool operator==(const DocumentPiece&, const DocumentPiece&) = default;
};

class SequencePlan {
 public:
  // A window of `whole` has so many pieces: enough to fill sequences, and little memory.
  static constexpr std::size_t kWindow = 65'536;

  // The tokens of a document, without the token that ends it.
  using Lengths = std::function<std::uint64_t(std::uint64_t document)>;

  // `sources`: where the sources of the rule's mixture lie, in the order of documents_to_mix.
  // REQUIRES: rule.problem(length) is empty; rule.packing is not
  SequencePlan(Lengths lengths, std::uint64_t documents, Digest version, const SequenceRule& rule,
               std::uint64_t length, std::span<const SampleRange> sources = {});
  SequencePlan(const SequencePlan&) = delete;

  // The pieces of the next sequence, one after the other; false: there is none.
  bool next(std::vector<DocumentPiece>& pieces);

 private:
  struct Open {  // a sequence with room for more
    std::uint64_t room;
    std::uint32_t sequence;
    friend auto operator<=>(const Open&, const Open&) = default;
  };

  std::uint64_t tokens(std::uint64_t document) const;
  bool find_document();
  DocumentOrder order_of(const SequenceRule& rule, std::uint64_t documents,
                         std::span<const SampleRange> sources) const;
  bool next_of_all(std::vector<DocumentPiece>& pieces);
  bool next_of_window(std::vector<DocumentPiece>& pieces);
  void fill_window();
  void pack_window();
  std::vector<std::vector<DocumentPiece>> best_fit() const;
  std::vector<std::vector<DocumentPiece>> buckets() const;
  std::vector<std::vector<DocumentPiece>> groups(
      std::vector<std::vector<DocumentPiece>> sequences) const;

  Lengths lengths_;
  std::uint64_t key_;
  std::uint64_t length_;
  bool concat_, buckets_, ends_;
  std::uint32_t rows_;
  DocumentOrder order_;
  std::optional<std::uint64_t> document_ = {};  // that is being packed
  std::uint64_t from_ = 0;                      // its first token that no sequence has
  // Without `concat`: the window, and its sequences in the order in which they are given out.
  std::uint64_t windows_ = 0;
  std::vector<DocumentPiece> window_;
  std::vector<std::vector<DocumentPiece>> packed_;
  std::size_t given_ = 0;
};

}  // namespace batchflow::sources
