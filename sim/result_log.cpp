#include "sim/result_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/config_value.h"
#include "programs/output/output.h"

namespace batchflow::sim {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string result_line(std::size_t run, const output::RunResult& result) {
  return fmt::format("{{\"run\":{},\"result\":{}}}\n", run, output::encode_run(result));
}

bool is_whole(const output::RunResult& result) {
  return !result.interrupted && !result.digest.empty();
}

ResultLog::ResultLog(std::string path, const Study& study, bool resume)
    : path_(std::move(path)), study_(study), results_(study.runs) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw ConfigError(fmt::format("{}: cannot be written: {}; name a file with --out", path_,
                                  std::strerror(errno)));
  }
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw ConfigError(path_ + ": is not a file that can keep results; name a file with --out");
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      throw ConfigError(path_ +
                        ": another sweep writes it; wait for it, or name another with --out");
    }
    const bool is_new = ::lseek(descriptor_, 0, SEEK_END) == 0;
    if (!is_new && !resume) {
      throw ConfigError(path_ +
                        ": holds results already; write --resume to make what is missing, or "
                        "remove it to begin anew");
    }
    read();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ResultLog::~ResultLog() {
  ::close(descriptor_);
}

std::string ResultLog::header() const {
  return Json{{"study", study_.name},
              {"fingerprint", study_.fingerprint},
              {"runs", study_.runs},
              {"version", BATCHFLOW_VERSION}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

void ResultLog::read() {
  std::string text;
  char buffer[65536];
  ::lseek(descriptor_, 0, SEEK_SET);
  for (;;) {
    const ssize_t got = ::read(descriptor_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  std::size_t from = 0;
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string::npos) break;  // the last line was cut short
    read_line(text.substr(from, end - from), number);
    from = end + 1;
  }
  if (from == 0) return begin_anew();
  if (::ftruncate(descriptor_, static_cast<off_t>(from)) != 0 ||
      ::lseek(descriptor_, 0, SEEK_END) < 0) {
    throw ConfigError(fmt::format("{}: {}", path_, std::strerror(errno)));
  }
}

void ResultLog::begin_anew() {
  if (::ftruncate(descriptor_, 0) != 0) {
    throw ConfigError(fmt::format("{}: {}", path_, std::strerror(errno)));
  }
  ::lseek(descriptor_, 0, SEEK_SET);
  write(header());
}

void ResultLog::read_line(const std::string& line, std::size_t number) {
  const auto refuse = [&](const char* what) {
    throw ConfigError(fmt::format("{}:{}: {}", path_, number, what));
  };
  try {
    const Json json = Json::parse(line);
    if (number > 1) {
      const std::size_t index = json.at("run");
      if (index >= results_.size()) refuse("a run that the study does not have; remove this line");
      results_[index] = output::decode_run(json.at("result").dump());
      return;
    }
    if (!json.contains("fingerprint"))
      refuse("not the results of a sweep; name another with --out");
    if (json.at("version") != BATCHFLOW_VERSION) {
      refuse("results of another version of the program; remove the file to begin anew");
    }
    if (json.at("fingerprint") != study_.fingerprint || json.at("runs") != study_.runs) {
      refuse(
          "results of another study, or of this one before it or its scenario was changed; "
          "change it back, or remove the file to begin anew");
    }
  } catch (const Json::exception&) {
    refuse(number == 1 ? "not the results of a sweep; name another with --out"
                       : "damaged; remove this line, and its run is made again");
  }
}

void ResultLog::write(const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw output::OutputError(
          fmt::format("{}: cannot be written: {}; make room and go on with --resume", path_,
                      std::strerror(errno)),
          errno);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  ::fdatasync(descriptor_);
}

void ResultLog::add(std::size_t index, const output::RunResult& result) {
  write(result_line(index, result));
  results_[index] = result;
}

void ResultLog::close() {
  std::string text = header();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (results_[i]) text += result_line(i, *results_[i]);
  }
  output::write_file_atomically(path_, text);
}

}  // namespace batchflow::sim
