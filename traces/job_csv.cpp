#include "traces/job_csv.h"

#include <fmt/format.h>

#include <iterator>

namespace batchflow::traces {
namespace {

class Line {
 public:
  explicit Line(std::string& text) : text_(text) {}

  void text(std::string_view field) {
    separate();
    // A field that a reader would trim, unquote or split is quoted.
    const bool plain = field.find_first_of(",\"#") == field.npos && !field.starts_with(' ') &&
                       !field.ends_with(' ');
    if (plain) {
      text_ += field;
      return;
    }
    text_ += '"';
    for (char c : field) text_.append(c == '"' ? 2 : 1, c);
    text_ += '"';
  }
  void number(std::uint64_t value) {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value);
  }
  // Writes nothing where the value is not known.
  void known(std::uint64_t value) {
    if (value != 0) return number(value);
    separate();
  }
  // `value` in units of 10^-digits, without needless zeros.
  void decimal(std::uint64_t value, std::uint64_t units, int digits) {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value / units);
    if (value % units == 0) return;
    fmt::format_to(std::back_inserter(text_), ".{:0{}}", value % units, digits);
    while (text_.back() == '0') text_.pop_back();
  }
  void seconds(std::int64_t ns) {
    constexpr int kDigits = 9;
    if (ns == kNoTime) return separate();
    const bool negative = ns < 0;
    const std::size_t at = text_.size() + !first_;
    decimal(static_cast<std::uint64_t>(negative ? -ns : ns), kNanosPerSecond, kDigits);
    if (negative) text_.insert(at, "-");
  }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  std::string& text_;
  bool first_ = true;
};

}  // namespace

std::string job_csv(const JobTrace& trace, const Progress& progress) {
  constexpr std::size_t kReportEvery = 1 << 16;
  std::string text = fmt::format(
      "# BatchFlow jobs 1, times: {}\n"
      "id,name,user,queue,submit_s,start_s,duration_s,gpus,nodes,cpus,memory_bytes,status,"
      "attempts\n",
      name_of(trace.time_base));
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const JobRecord& job = trace.jobs[i];
    if (progress && i % kReportEvery == 0) {
      progress(static_cast<double>(i) / static_cast<double>(trace.jobs.size()));
    }
    Line line(text);
    line.text(trace.text(job.id));
    line.text(trace.text(job.name));
    line.text(trace.text(job.user));
    line.text(trace.text(job.queue));
    line.seconds(job.submit_ns);
    line.seconds(job.start_ns);
    line.seconds(job.duration_ns);
    line.decimal(job.gpus_hundredths, 100, 2);
    line.known(job.nodes);
    if (job.cpus_hundredths == 0) {
      line.known(0);
    } else {
      line.decimal(job.cpus_hundredths, 100, 2);
    }
    line.known(job.memory_bytes);
    line.text(name_of(job.status));
    line.number(job.attempts);
    text += '\n';
  }
  return text;
}

}  // namespace batchflow::traces
