#include "runtime/service/cluster/terms.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/secret.h"

namespace batchflow::service {
namespace {

using nlohmann::json;
using protocol::Descriptor;

// A file of a term always has this size: it is written in place, so that it cannot come back after
// it was removed.
constexpr std::size_t kTermBytes = 1024;
constexpr std::string_view kTermFile = "term.", kPromisesFile = "promises.";

std::string message_of(int number) {
  return std::generic_category().message(number);
}

// The numbers of the files that are called so, in order.
std::vector<std::uint64_t> numbers(const std::filesystem::path& folder, std::string_view prefix) {
  std::vector<std::uint64_t> all;
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error)
    throw ConfigError(
        fmt::format("{}: cannot be read: {}; mount it, or choose another folder "
                    "(--cluster-log)",
                    folder.string(), error.message()));
  for (const std::filesystem::directory_iterator end; files != end; files.increment(error)) {
    const std::string name = files->path().filename();
    if (!name.starts_with(prefix)) continue;
    std::uint64_t number = 0;
    const char* const last = name.data() + name.size();
    const auto [stopped, failed] = std::from_chars(name.data() + prefix.size(), last, number);
    if (failed == std::errc() && stopped == last) all.push_back(number);
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool write_whole(const Descriptor& file, const std::string& bytes) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t some = pwrite(file.get(), bytes.data() + written, bytes.size() - written,
                                static_cast<off_t>(written));
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    written += static_cast<std::size_t>(some);
  }
  return fdatasync(file.get()) == 0;
}

std::string text_of(const Term& term) {
  std::string text = json{
      {"holder", term.holder},
      {"address", term.address},
      {"renewed", term.renewed},
      {"ended",
       term.ended}}.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize(kTermBytes - 1, ' ');
  return text + "\n";
}

}  // namespace

TermFolder::TermFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::filesystem::path file = folder_ / "cluster";
  const auto fail = [&](const std::string& why) {
    throw ConfigError(
        fmt::format("{}: cannot be written: {}; choose another folder that all "
                    "candidates share (--cluster-log)",
                    file.string(), why));
  };
  if (error) fail(error.message());
  // The first of all candidates names the cluster. Its file gets its name when it is whole.
  const std::filesystem::path own = folder_ / ("cluster." + protocol::make_secret().substr(0, 16));
  const std::string name = protocol::make_secret() + "\n";
  {
    const Descriptor made(::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    const bool is_whole = made && write_whole(made, name);
    const int why = errno;
    if (!is_whole) {
      unlink(own.c_str());
      fail(message_of(why));
    }
  }
  const bool is_first = link(own.c_str(), file.c_str()) == 0;
  const int why = errno;
  unlink(own.c_str());
  if (!is_first && why != EEXIST) fail(message_of(why));
  const Descriptor known(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> bytes{};
  const ssize_t got = known ? ::read(known.get(), bytes.data(), bytes.size()) : -1;
  if (got <= 1 || bytes[static_cast<std::size_t>(got) - 1] != '\n') fail("it is no name");
  cluster_.assign(bytes.data(), static_cast<std::size_t>(got) - 1);
}

std::filesystem::path TermFolder::file_of(std::uint64_t number) const {
  return folder_ / fmt::format("{}{}", kTermFile, number);
}

std::filesystem::path TermFolder::promises_of(std::uint64_t number) const {
  return folder_ / fmt::format("{}{}", kPromisesFile, number);
}

std::filesystem::path TermFolder::promises_before(std::uint64_t number) const {
  const std::vector<std::uint64_t> all = numbers(folder_, kPromisesFile);
  const auto next = std::lower_bound(all.begin(), all.end(), number);
  return next == all.begin() ? std::filesystem::path() : promises_of(*(next - 1));
}

// Nothing: it is being written, or gone by now.
std::optional<Term> TermFolder::read(std::uint64_t number) const {
  const Descriptor file(::open(file_of(number).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kTermBytes> bytes{};
  const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
  const json text =
      got <= 0 ? json() : json::parse(bytes.begin(), bytes.begin() + got, nullptr, false);
  if (!text.is_object()) return std::nullopt;
  Term term;
  term.number = number;
  try {
    term.holder = text.at("holder").get<std::string>();
    term.address = text.at("address").get<std::string>();
    term.renewed = text.at("renewed").get<std::uint64_t>();
    term.ended = text.at("ended").get<bool>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return term;
}

Term TermFolder::newest() const {
  const std::vector<std::uint64_t> all = numbers(folder_, kTermFile);
  if (all.empty()) return {};
  if (std::optional<Term> term = read(all.back())) return *std::move(term);
  Term unknown;
  unknown.number = all.back();
  return unknown;
}

bool TermFolder::take(std::uint64_t number, const std::string& holder, std::string& problem) const {
  const std::filesystem::path path = file_of(number);
  const Descriptor made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!made) {
    if (errno != EEXIST) problem = fmt::format("{}: {}", path.string(), message_of(errno));
    return false;
  }
  Term term;
  term.holder = holder;
  if (write_whole(made, text_of(term))) return true;
  // The file stays: whatever it says, this term is taken.
  problem = fmt::format("{}: {}", path.string(), message_of(errno));
  return false;
}

bool TermFolder::write(const Term& term) const {
  const Descriptor file(::open(file_of(term.number).c_str(), O_WRONLY | O_CLOEXEC));
  return file && write_whole(file, text_of(term));
}

// The files of older terms are removed in order, so that of two neighbours the newer one is there,
// or neither.
bool TermFolder::is_over(std::uint64_t number) const {
  const auto is_there = [this](std::uint64_t one) {
    const std::string path = file_of(one);
    if (access(path.c_str(), F_OK) == 0) return true;
    return errno != ENOENT;
  };
  return is_there(number + 1) || access(file_of(number).c_str(), F_OK) != 0;
}

void TermFolder::remove_before(std::uint64_t number) const {
  if (number < 2) return;
  std::error_code ignored;
  for (const auto& [prefix, path] : {std::pair(kTermFile, &TermFolder::file_of),
                                     std::pair(kPromisesFile, &TermFolder::promises_of)}) {
    for (const std::uint64_t one : numbers(folder_, prefix)) {
      if (one < number - 1) std::filesystem::remove((this->*path)(one), ignored);
    }
  }
}

// --------------------------------------------------------------------------------- candidates ----

TermWatch::Seen TermWatch::look() {
  Seen seen;
  seen.now = folder_.newest();
  const auto now = Clock::now();
  if (seen.now.number != last_.number || seen.now.renewed != last_.renewed) changed_ = now;
  last_ = seen.now;
  const bool is_free = seen.now.number == 0 || seen.now.ended || now - changed_ > silence_;
  if (!is_free || now < from_) return seen;
  const std::uint64_t next = seen.now.number + 1;
  seen.taken = folder_.take(next, name_, seen.problem);
  if (!seen.taken) return seen;
  seen.now = {};
  seen.now.number = next;
  seen.now.holder = name_;
  return seen;
}

HeldTerm::HeldTerm(const TermFolder& folder, Term term, std::chrono::milliseconds silence)
    : folder_(folder), term_(std::move(term)), silence_(silence) {}

HeldTerm::~HeldTerm() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  term_.ended = true;
  folder_.write(term_);
}

void HeldTerm::serve(std::string address, std::function<void(const std::string&)> lost) {
  term_.address = std::move(address);
  thread_ = std::thread([this, lost = std::move(lost)] {
    pthread_setname_np(pthread_self(), "bf-term");
    renew(lost);
  });
}

void HeldTerm::renew(const std::function<void(const std::string&)>& lost) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point renewed = Clock::now();
  std::unique_lock lock(mutex_);
  do {
    ++term_.renewed;
    if (folder_.write(term_)) {
      renewed = Clock::now();
    } else if (Clock::now() - renewed > silence_) {
      return lost(
          fmt::format("its term {} cannot be renewed: {}", term_.number, message_of(errno)));
    }
    if (is_over()) return lost(fmt::format("another node has taken term {}", term_.number + 1));
  } while (!changed_.wait_for(lock, silence_ / 5, [this] { return ending_; }));
}

}  // namespace batchflow::service
