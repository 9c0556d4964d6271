// What `gpu_check` prints: one row for each check and for each rate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::gpu_check {

enum class Verdict : std::uint8_t { passed, failed, measured, not_run };

class Report {
 public:
  // Also prints the row at once, so that nothing is lost when the program is stopped.
  void row(std::string_view group, std::string_view what, Verdict verdict, std::string_view value,
           std::string_view aim = "");
  bool failed() const { return failed_; }
  std::string markdown() const;

 private:
  struct Row {
    std::string group, what, value, aim;
    Verdict verdict;
  };
  std::vector<Row> rows_;
  bool failed_ = false;
};

struct Options {
  std::string pictures;    // a folder of JPEG files; empty: none
  double seconds = 1;      // about how long a rate is measured
  bool sanitized = false;  // under compute-sanitizer: small sizes, no rates
};

// Each is a part of the check; it returns whatever goes wrong as rows.
void check_kernels(Report& report, const Options& options);
void check_decoding(Report& report, const Options& options);
void check_memory(Report& report, const Options& options);

}  // namespace batchflow::gpu_check
