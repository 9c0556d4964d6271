// Microsoft Philly: cluster_job_log, JSON, with every attempt of every job.
// Source: README and analysis of github.com/msr-fiddle/philly-traces. Not checked on a real file.
// A job's GPUs are those of its largest attempt; it runs from the first start of an attempt to the
// end of its last one. A job without attempts does not say how many GPUs it wanted. Times are in a
// zone that is not named (Pacific), and null or `None` where the log lacks them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "traces/formats/format.h"
#include "traces/formats/json_objects.h"

namespace batchflow::traces {
namespace {

using Json = nlohmann::json;

// Follows the JSON of one job; nlohmann-json calls it for each token.
class PhillyJob : public nlohmann::json_sax<Json> {
 public:
  explicit PhillyJob(JobTraceBuilder& builder) : builder_(builder) {}

  // Throws nothing; afterwards `fault` says what is wrong, if anything.
  JobDraft read(std::string_view text) {
    draft_ = {};
    draft_.knows_gpus = false;
    draft_.record.attempts = 0;
    levels_.clear();
    key_.clear();
    fault.clear();
    is_job_ = false;
    if (!Json::sax_parse(text.begin(), text.end(), this) && fault.empty()) {
      fault = "what begins here is not a job; write a JSON object";
    }
    if (fault.empty() && !is_job_) fault = "the job that begins here has no submitted_time; add it";
    return draft_;
  }
  std::string fault;

  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool string(string_t& text) override { return value(text); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t number) override { return value(std::to_string(number)); }
  bool number_unsigned(number_unsigned_t number) override { return value(std::to_string(number)); }
  bool number_float(number_float_t, const string_t& text) override { return value(text); }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    const Level outer = level();
    if (levels_.empty()) return enter(Level::job);
    if (outer == Level::attempts) {
      if (draft_.record.attempts < UINT16_MAX) ++draft_.record.attempts;
      gpus_ = nodes_ = 0;
      draft_.end_ns = kNoTime;  // the end of the last attempt counts
      return enter(Level::attempt);
    }
    if (outer == Level::details) {
      ++nodes_;
      return enter(Level::detail);
    }
    return enter(Level::elsewhere);
  }
  bool end_object() override {
    if (level() == Level::attempt) finish_attempt();
    levels_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    const Level outer = level();
    if (outer == Level::job && key_ == "attempts") return enter(Level::attempts);
    if (outer == Level::attempt && key_ == "detail") return enter(Level::details);
    if (outer == Level::detail && key_ == "gpus") return enter(Level::gpus);
    return enter(Level::elsewhere);
  }
  bool end_array() override {
    levels_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    fault = "the job that begins here is not valid JSON; write it whole";
    return false;
  }

 private:
  enum class Level { elsewhere, job, attempts, attempt, details, detail, gpus };

  Level level() const { return levels_.empty() ? Level::elsewhere : levels_.back(); }
  bool enter(Level level) {
    levels_.push_back(level);
    return true;
  }

  void finish_attempt() {
    JobRecord& job = draft_.record;
    if (nodes_ == 0) return;
    draft_.knows_gpus = true;
    if (100 * gpus_ < job.gpus_hundredths) return;
    job.gpus_hundredths = 100 * gpus_;
    job.nodes = nodes_;
  }

  bool time(const std::string& text, TraceTime& to) {
    if (builder_.read_time(text, to)) return true;
    fault = "the " + key_ + " '" + text.substr(0, 60) + "' is wrong; write YYYY-MM-DD HH:MM:SS";
    return false;
  }

  bool value(const std::string& text) {
    JobRecord& job = draft_.record;
    switch (level()) {
      case Level::gpus:
        ++gpus_;
        break;
      case Level::job:
        if (key_ == "jobid") job.id = builder_.texts().keep(text);
        if (key_ == "user") job.user = builder_.texts().intern(text);
        if (key_ == "vc") job.queue = builder_.texts().intern(text);
        if (key_ == "status") draft_.set_status(text);
        if (key_ != "submitted_time") break;
        is_job_ = true;
        return time(text, job.submit_ns);
      case Level::attempt:
        if (key_ == "end_time") return time(text, draft_.end_ns);
        if (key_ == "start_time" && !job.has_start()) return time(text, job.start_ns);
        break;
      default:
        break;
    }
    return true;
  }

  JobTraceBuilder& builder_;
  JobDraft draft_;
  std::vector<Level> levels_;
  std::string key_;
  std::uint32_t gpus_ = 0;  // of the present attempt
  std::uint32_t nodes_ = 0;
  bool is_job_ = false;
};

// Every job has it, and nothing within a job.
constexpr std::string_view kMark = "\"submitted_time\"";

bool is_philly(const Beginning& begin) {
  const bool is_json = begin.line.starts_with('[') || begin.line.starts_with('{');
  return is_json && begin.text.find(kMark) != begin.text.npos;
}

// Jobs that are lost in a gap: as many as submissions are in it, and as many as fit if each is as
// long as the longest job so far (pages of a file may be zero).
std::uint64_t jobs_in(const JsonGap& gap, std::uint64_t longest_bytes) {
  if (gap.line == 0) return 0;
  const std::uint64_t fitting = longest_bytes == 0 ? 0 : gap.bytes / longest_bytes;
  return std::max(gap.marks, fitting);
}

void read_philly(const JobInput& input, JobTraceBuilder& builder) {
  JsonObjects objects(input, kMark);
  PhillyJob job(builder);
  std::uint64_t longest_bytes = 0;
  while (objects.next()) {
    const JsonGap& gap = objects.gap();
    const std::uint64_t lost = jobs_in(gap, longest_bytes);
    const bool has_gap = gap.line != 0, has_job = !objects.text().empty();
    const JobDraft draft = has_job ? job.read(objects.text()) : JobDraft{};
    const bool is_whole = has_job && job.fault.empty();
    if (has_gap) {  // unreadable text behind it may be the rest of the job that begins there
      builder.corrupt(gap.line, "what begins here is not a whole job; close its braces and quotes",
                      std::max<std::uint64_t>(lost + (has_job && !is_whole), 1));
    } else if (!is_whole) {
      builder.corrupt(objects.line(), job.fault);
    }
    if (!is_whole) continue;
    builder.add(draft, objects.line());
    longest_bytes = std::max<std::uint64_t>(longest_bytes, objects.text().size());
  }
}

}  // namespace

constexpr JobFormat kPhillyJson{.name = "philly-json",
                                .help = "Microsoft Philly, cluster_job_log with attempts",
                                .checked = false,
                                .is = is_philly,
                                .read = read_philly};

}  // namespace batchflow::traces
