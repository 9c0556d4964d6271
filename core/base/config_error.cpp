#include "core/base/config_error.h"

#include <algorithm>
#include <cctype>

namespace batchflow {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string_view>& known) {
  const std::string wanted = lower(given);
  std::string_view best;
  std::size_t best_edits = std::max<std::size_t>(1, given.size() / 2) + 1;
  for (std::string_view name : known) {
    const std::string candidate = lower(name);
    // A beginning of three letters or more says more than the number of edits.
    const bool begins = wanted.size() >= 3 && candidate.starts_with(wanted);
    const std::size_t edits = begins ? 0 : distance(wanted, candidate);
    if (edits < best_edits) {
      best_edits = edits;
      best = name;
    }
  }
  return std::string(best);
}

}  // namespace batchflow
