#include "tools/gpu_check/report.h"

#include <cstdio>

namespace batchflow::gpu_check {
namespace {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "FAILED";
    case Verdict::measured:
      return "";
    case Verdict::not_run:
      return "not run";
  }
  return "";
}

// A bar would end a cell of the table.
std::string cell(const std::string& text) {
  std::string made;
  for (const char c : text) made += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return made;
}

}  // namespace

void Report::row(std::string_view group, std::string_view what, Verdict verdict,
                 std::string_view value, std::string_view aim) {
  rows_.push_back(
      {std::string(group), std::string(what), std::string(value), std::string(aim), verdict});
  failed_ |= verdict == Verdict::failed;
  const Row& row = rows_.back();
  std::printf("%-8s %-8s %s: %s%s%s%s\n", name_of(verdict), row.group.c_str(), row.what.c_str(),
              row.value.c_str(), aim.empty() ? "" : "  (aim: ", row.aim.c_str(),
              aim.empty() ? "" : ")");
  std::fflush(stdout);
}

std::string Report::markdown() const {
  std::string text = "| part | what | result | aim | |\n|---|---|---|---|---|\n";
  for (const Row& row : rows_)
    text += "| " + cell(row.group) + " | " + cell(row.what) + " | " + cell(row.value) + " | " +
            cell(row.aim) + " | " + name_of(row.verdict) + " |\n";
  return text;
}

}  // namespace batchflow::gpu_check
