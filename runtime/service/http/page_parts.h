// The pieces that the status page is made of, as HTML and SVG without any style or script in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/http/history.h"

namespace batchflow::service {

// Names come from users and paths from disks: none may be taken for HTML.
std::string escaped(std::string_view text);
std::string bytes_text(Bytes bytes);
std::string rate_text(double samples_per_s);
double share_of(double part, double whole);
std::string tile(std::string_view value, std::string_view what);

// A table whose columns have names. On a narrow screen each row is a list of these.
class Table {
 public:
  explicit Table(std::vector<std::string> columns);
  // REQUIRES: each is HTML, so what a user has written is escaped
  void add(const std::vector<std::string>& cells);
  std::string take() &&;

 private:
  std::vector<std::string> columns_;
  std::string rows_;
};

// How much of a whole is in use.
std::string use_bar(double share);
// What ranks wait for: `stalled` has the share of each stage, and what is left is computing.
std::string stage_bar(const std::vector<double>& stalled);
// The same in words; empty: nothing to speak of.
std::string stage_text(const std::vector<double>& stalled);
// Which colour is which stage.
std::string stage_legend();
// Samples a second, and what ranks waited for, as they came about.
std::string history_graphs(const std::vector<HistoryPoint>& points);
// The same of an agent, which does not know what ranks wait for.
// REQUIRES: both were noted at the same moments
std::string node_graphs(const std::vector<HistoryPoint>& delivered,
                        const std::vector<HistoryPoint>& prepared);

}  // namespace batchflow::service
