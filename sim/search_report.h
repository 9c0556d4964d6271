// What a search tried and found, for people and for programs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "programs/output/results.h"
#include "sim/search.h"

namespace batchflow::sim {

// The runs with one value of what is searched.
struct TriedValue {
  std::uint64_t value = 0;
  std::vector<Estimate> figures;  // of the conditions, in order
  bool meets = false;             // all conditions
  std::string remark;             // why there are no figures
  double price_per_hour = 0;
  Estimate cost;
  Estimate cost_per_million_samples;
};

struct SearchResults {
  SearchedSetting setting;
  std::vector<Condition> conditions;
  std::string label;     // of the policies; empty: there is one search
  std::string currency;  // of prices
  std::size_t seeds = 1;
  std::vector<TriedValue> tried;  // rising
  std::optional<std::uint64_t> answer;
  std::optional<std::uint64_t> below;      // the greatest value tried that is less than the answer
  std::vector<std::uint64_t> out_of_line;  // met the conditions, though a greater value did not

  const TriedValue& at(std::uint64_t value) const;
  // Of the values that do not meet the conditions, the nearest to them; none where none has
  // figures.
  const TriedValue* best() const;
};

// `stall_fraction<2% and jct_p95_s<5min`
std::string conditions_text(const SearchResults& results);
// What was found: the first line answers the question, others say what is beside it.
std::string search_answer(const SearchResults& results);
// Whether the cluster has prices.
bool has_prices(const SearchResults& results);

std::string search_table(const SearchResults& results);
// A report with plots. `runs` are of all searches.
std::string searches_html(const std::vector<SearchResults>& searches,
                          std::span<const output::RunResult> runs);
// A list of searches, an object each.
std::string searches_json(const std::vector<SearchResults>& searches);

}  // namespace batchflow::sim
