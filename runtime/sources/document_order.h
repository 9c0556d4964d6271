// In which order documents are packed: all of them by chance, or those of several sources, each at
// its share of the tokens (order rules, section 10).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/order/mixture.h"
#include "core/order/permutation.h"

namespace batchflow::sources {

// A folder or a file of documents, and what it weighs.
struct WeighedDocuments {
  std::string name;
  double weight = 0;
};
// `web:0.7+code:0.3`; none, with the reason in `problem`: it is no such text.
std::vector<WeighedDocuments> documents_to_mix(const std::string& text, std::string& problem);

class DocumentOrder {
 public:
  // The tokens of a document, the one that ends it included; 0: it is empty.
  using Tokens = std::function<std::uint64_t(std::uint64_t document)>;

  // All documents, in the order of `key`.
  DocumentOrder(std::uint64_t key, std::uint64_t documents);
  // The documents of several sources, until the source that is next has no more: no document comes
  // twice. REQUIRES: as many weights as ranges, none below 0, not all 0; no range is empty
  DocumentOrder(std::uint64_t key, std::span<const SampleRange> ranges,
                std::span<const double> weights, Tokens tokens);

  // The next document; a mixture passes over empty ones. None: there is no other.
  std::optional<std::uint64_t> next();

 private:
  struct Source {
    std::uint64_t first = 0;
    order::Permutation order;
    std::uint64_t given = 0;
    std::optional<std::uint64_t> document = {};  // that it gives next
  };
  std::uint32_t find_next(Source& source) const;

  Tokens tokens_;
  std::vector<Source> sources_;
  std::optional<order::Mixture> mixture_;  // of several sources
};

}  // namespace batchflow::sources
