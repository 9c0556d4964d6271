#include "runtime/ctl/folder_sender.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "core/base/config_value.h"
#include "runtime/client/c_interface.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kList = ".batchflow-sending";
constexpr std::string_view kTaken = ".taken";
constexpr std::string_view kLeftOut = ".left-out";
constexpr std::size_t kAtOnce = 4096;  // files in a list

std::string said(int error) {
  return std::generic_category().message(error);
}

}  // namespace

void patiently(const std::function<bf_status()>& call) {
  for (bool said = false;; said = true) {
    const bf_status status = call();
    if (status == BF_OK) return;
    if (status != BF_TIMEOUT && status != BF_NO_SERVICE)
      throw std::runtime_error(client::last_error());
    if (!said) fmt::print(stderr, "batchflowctl: waiting: {}\n", client::last_error());
  }
}

FolderSender::FolderSender(client::FeedProducer& feed, std::string producer, std::string folder,
                           std::chrono::milliseconds settle)
    : feed_(feed), producer_(std::move(producer)), folder_(std::move(folder)), settle_(settle) {
  std::error_code error;
  fs::create_directories(fs::path(folder_) / kTaken, error);
  if (!error) fs::create_directories(fs::path(folder_) / kLeftOut, error);
  if (error)
    throw ConfigError(
        fmt::format("{}: {}; name a folder that may be written to", folder_, error.message()));
  finish_list();
}

std::vector<std::string> FolderSender::whole_files() {
  soon_whole_ = of_the_future_ = 0;
  std::vector<std::string> names;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;
    if (name.empty() || name.front() == '.' || name.find('\n') != std::string::npos ||
        !entry.is_regular_file(gone))
      continue;
    const auto written = entry.last_write_time(gone);
    if (gone) continue;
    if (now - written >= settle_) {
      names.push_back(name);
    } else {
      ++(written > now ? of_the_future_ : soon_whole_);
    }
  }
  if (error) throw std::runtime_error(fmt::format("{}: {}", folder_, error.message()));
  std::sort(names.begin(), names.end());
  if (names.size() > kAtOnce) names.resize(kAtOnce);
  return names;
}

void FolderSender::write_list(const std::vector<std::string>& names, std::uint64_t first) const {
  std::string text = fmt::format("{} {}\n", first, producer_);
  for (const std::string& name : names) text += name + "\n";
  const std::string path = folder_ + "/" + std::string(kList);
  const std::string being_made = path + ".new";
  const protocol::Descriptor file(
      ::open(being_made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || ::rename(being_made.c_str(), path.c_str()) != 0)
    throw std::runtime_error(fmt::format("{}: {}", path, said(errno)));
}

void FolderSender::move_to(std::string_view where, const std::string& name) const {
  const fs::path from = fs::path(folder_) / name;
  const fs::path to = fs::path(folder_) / where;
  std::error_code error;
  fs::rename(from, to / name, error);
  // Users remove these folders to make room. A file that stayed would be sent again.
  std::error_code unknown;
  if (error == std::errc::no_such_file_or_directory && fs::exists(from, unknown)) {
    fs::create_directory(to, error);
    if (!error) fs::rename(from, to / name, error);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw std::runtime_error(fmt::format("{}: {}", from.string(), error.message()));
}

// What was being sent when the sender ended.
void FolderSender::finish_list() {
  std::ifstream list(folder_ + "/" + std::string(kList));
  std::uint64_t first = 0;
  std::string line;
  if (!list || !std::getline(list, line)) return;
  char* end = nullptr;
  first = std::strtoull(line.c_str(), &end, 10);
  // Sequences of one producer say nothing of those of another.
  if (end != line.c_str() + line.size() && " " + producer_ != end)
    throw std::runtime_error(fmt::format(
        "{}/{}: files were being sent as another producer or to another feed ({}); send "
        "them so, or remove the list to send them again",
        folder_, kList, end + 1));
  std::vector<std::string> names;
  while (std::getline(list, line)) {
    if (line.find('/') != std::string::npos)
      throw std::runtime_error(fmt::format(
          "{}/{}: '{}' is no name of a file there; remove the list", folder_, kList, line));
    names.push_back(line);
  }
  send(names, first);
}

// Takes the bytes of a file. False: it is empty, too large, or gone.
bool FolderSender::read(const std::string& name, std::uint64_t bytes_most) {
  std::string problem;
  const protocol::Descriptor file =
      protocol::open_regular(folder_ + "/" + name, O_RDONLY | O_NOFOLLOW, problem);
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) return false;
  bytes_.resize(static_cast<std::size_t>(
      std::min<off_t>(status.st_size, static_cast<off_t>(bytes_most) + 1)));
  const ssize_t got = ::read(file.get(), bytes_.data(), bytes_.size());
  if (got <= 0 || static_cast<std::uint64_t>(got) > bytes_most) return false;
  bytes_.resize(static_cast<std::size_t>(got));
  return true;
}

// The names have sequences from `first` on. Those that are acknowledged already only move.
void FolderSender::send(const std::vector<std::string>& names, std::uint64_t first) {
  std::vector<std::string> left_out;
  // The feed may have no record with the last sequences before: these files were left out.
  feed_.skip_before(first);
  bf_feed_info info{};
  feed_.info(info);
  for (std::uint64_t sequence = first; const std::string& name : names) {
    const bool is_acknowledged = sequence++ <= info.acknowledged;
    std::error_code error;
    const bool has_moved = is_acknowledged && !fs::exists(fs::path(folder_) / name, error);
    if (has_moved) continue;
    const bool is_record = read(name, info.record_bytes_most);
    if (!is_record) left_out.push_back(name);
    if (is_acknowledged) continue;
    // Its sequence is used up, so that those behind it keep theirs.
    if (!is_record) {
      patiently([&] { return feed_.skip(); });
      continue;
    }
    bf_record record{};
    record.bytes = bytes_.data();
    record.count = bytes_.size();
    for (const char byte : name) record.key = record.key * 31 + static_cast<unsigned char>(byte);
    patiently([&] { return feed_.put(record); });
    ++sent_;
  }
  patiently([&] { return feed_.flush(0); });
  for (const std::string& name : names) {
    const bool is_left_out = std::count(left_out.begin(), left_out.end(), name) > 0;
    move_to(is_left_out ? kLeftOut : kTaken, name);
  }
  ::unlink((folder_ + "/" + std::string(kList)).c_str());
  left_out_ += left_out.size();
}

std::uint64_t FolderSender::send_some() {
  const std::vector<std::string> names = whole_files();
  if (names.empty()) return 0;
  bf_feed_info info{};
  feed_.info(info);
  write_list(names, info.sequence + 1);
  send(names, info.sequence + 1);
  return names.size();
}

}  // namespace batchflow::ctl
