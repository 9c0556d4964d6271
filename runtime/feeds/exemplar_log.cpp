#include "runtime/feeds/exemplar_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <utility>

#include "core/engine/growing_sources.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/frames.h"

namespace batchflow::feeds {
namespace {

using order::ReservoirName;

constexpr std::string_view kExemplarsPrefix = "exemplars.";
constexpr std::string_view kUnfinished = ".new";
// A file that has no more than this beside what is needed stays as it is.
constexpr Bytes kDeadAlways = Bytes{1} << 16;

}  // namespace

// ------------------------------------------------------------------------------ recovery ----

ExemplarLog::ExemplarLog(std::string folder, const FeedSettings& settings)
    : folder_(std::move(folder)),
      feed_(settings.id),
      version_(version_of(settings)),
      exemplars_most_(engine::exemplars_most(settings.keep_bytes, settings.record_bytes)) {
  std::vector<std::uint32_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kExemplarsPrefix)) continue;
    std::uint32_t number = 0;
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kExemplarsPrefix.size(), end, number);
    if (name.ends_with(kUnfinished)) {  // it was never a part of the log
      ::unlink(entry.path().c_str());
    } else if (read.ec == std::errc() && read.ptr == end && number % 2 == 1) {
      numbers.push_back(number);
    }
  }
  if (error) throw FeedError(fmt::format("{}: {}", folder_, error.message()));
  if (numbers.empty()) return;
  const std::uint32_t newest = *std::max_element(numbers.begin(), numbers.end());
  recover(newest);
  for (const std::uint32_t number : numbers)
    if (number != newest) ::unlink(path_of(number).c_str());
}

std::string ExemplarLog::path_of(std::uint32_t number) const {
  return fmt::format("{}/{}{:010}", folder_, kExemplarsPrefix, number);
}

void ExemplarLog::recover(std::uint32_t number) {
  const std::string path = path_of(number);
  std::string problem;
  auto file = std::make_shared<ExemplarFile>();
  file->number = number;
  file->file = protocol::open_regular(path, O_RDWR, problem);
  if (!file->file) throw FeedError(fmt::format("{}: {}", path, problem));
  ExemplarReader reader(*file, feed_, path);
  AllKept found;
  for (auto& [name, slots] : reader.reservoirs()) {
    const std::uint64_t next = std::max(reader.dropped_before(), name.first);
    found.emplace(name, Kept{order::Reservoir(version_, name, next, std::move(slots.records)),
                             std::move(slots.held)});
  }
  take(std::move(file), std::move(found), reader.dropped_before());
}

// ------------------------------------------------------------------------------- keeping ----

std::string ExemplarLog::keep(std::uint64_t from, std::uint64_t next,
                              std::span<const ReservoirName> names, const Bring& bring) {
  AllKept all = kept_;
  bool has_changed = from < next;
  for (const ReservoirName& name : names)
    if (can_be_kept(name) && name.first >= from)
      has_changed |= all.try_emplace(name, Kept{order::Reservoir(version_, name), {}}).second;
  make_room(all, names);
  if (!has_changed || (all.empty() && !file_)) return "";
  std::shared_ptr<ExemplarFile> file = file_;
  std::string problem;
  if (!file) {
    file = make_file(1, problem);
    if (!file || !(problem = give_name(*file)).empty()) return problem;
  }
  // Of an attempt that failed.
  if (::ftruncate(file->file.get(), static_cast<off_t>(file->bytes)) != 0) return said(errno);
  ExemplarWriter writer(*file);
  std::vector<std::byte> bytes;
  std::int32_t label = -1;
  for (auto& [name, kept] : all) {
    const std::vector<std::uint32_t> before(kept.reservoir.records().begin(),
                                            kept.reservoir.records().end());
    kept.reservoir.show(next);
    const std::span<const std::uint32_t> now = kept.reservoir.records();
    kept.held.resize(now.size());
    for (std::uint32_t slot = 0; slot < now.size() && !writer.failed(); ++slot) {
      if (slot < before.size() && before[slot] == now[slot]) continue;
      if (bring(now[slot], bytes, label)) {
        kept.held[slot] = writer.exemplar(name, slot, now[slot], label, bytes);
      } else {
        writer.fail(fmt::format("record {} cannot be read, which jobs rehearse", now[slot]));
      }
    }
  }
  writer.kept(next, names_of(all));
  if (problem = writer.finish(); !problem.empty()) return problem;
  {
    const std::lock_guard lock(mutex_);
    file->bytes = writer.end();
  }
  take(file, std::move(all), next);
  rewrite();
  return "";
}

std::vector<ReservoirName> ExemplarLog::names_of(const AllKept& all) {
  std::vector<ReservoirName> names;
  for (const auto& [name, kept] : all) names.push_back(name);
  return names;
}

void ExemplarLog::forget() {
  const std::lock_guard lock(mutex_);
  kept_.clear();
  places_.clear();
}

// Those that are named stay: the engine has seen to it that there is room for them.
void ExemplarLog::make_room(AllKept& all, std::span<const ReservoirName> names) const {
  std::uint64_t sum = 0;
  for (const auto& [name, kept] : all) sum += name.most;
  for (auto one = all.begin(); one != all.end() && sum > exemplars_most_;) {
    const bool is_named = std::find(names.begin(), names.end(), one->first) != names.end();
    if (!is_named) sum -= one->first.most;
    one = is_named ? std::next(one) : all.erase(one);
  }
}

void ExemplarLog::take(std::shared_ptr<ExemplarFile> file, AllKept kept,
                       std::uint64_t dropped_before) {
  std::vector<std::pair<std::uint32_t, HeldExemplar>> places;
  for (const auto& [name, one] : kept)
    for (std::size_t slot = 0; slot < one.held.size(); ++slot)
      places.emplace_back(one.reservoir.records()[slot], one.held[slot]);
  std::sort(places.begin(), places.end(),
            [](const auto& one, const auto& other) { return one.first < other.first; });
  const std::lock_guard lock(mutex_);
  if (file_ != file) before_ = std::exchange(file_, std::move(file));
  names_.try_emplace(file_->number, fmt::format("{}{:010}", kExemplarsPrefix, file_->number));
  kept_ = std::move(kept);
  dropped_before_ = dropped_before;
  places_ = std::move(places);
}

// A file with a head alone, which is no part of the log yet.
std::shared_ptr<ExemplarFile> ExemplarLog::make_file(std::uint32_t number,
                                                     std::string& problem) const {
  auto file = std::make_shared<ExemplarFile>();
  file->number = number;
  const std::string path = path_of(number) + std::string(kUnfinished);
  file->file =
      protocol::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const std::vector<std::byte> head = exemplar_file_head(feed_);
  problem = file->file ? write_all(file->file.get(), head, 0) : said(errno);
  if (problem.empty() && ::fdatasync(file->file.get()) != 0) problem = said(errno);
  if (!problem.empty()) {
    ::unlink(path.c_str());
    return nullptr;
  }
  file->bytes = head.size();
  return file;
}

// Makes it a part of the log. Empty, or what is wrong.
std::string ExemplarLog::give_name(const ExemplarFile& file) const {
  const std::string path = path_of(file.number);
  const std::string unfinished = path + std::string(kUnfinished);
  const bool is_named = ::rename(unfinished.c_str(), path.c_str()) == 0;
  std::string problem = is_named ? sync_folder(folder_) : said(errno);
  if (BF_FAILPOINT("feed.exemplars.name")) problem = said(EIO);
  if (!problem.empty()) ::unlink((is_named ? path : unfinished).c_str());
  return problem;
}

// Another file takes its place if most of it is not needed. Where that fails, it stays.
void ExemplarLog::rewrite() {
  Bytes needed = 0;
  for (const auto& [name, one] : kept_)
    for (const HeldExemplar& held : one.held) needed += kBesideExemplar + held.bytes;
  if (file_->bytes <= 2 * needed + kDeadAlways) return;
  std::string problem;
  const std::shared_ptr<ExemplarFile> file = make_file(file_->number + 2, problem);
  if (!file) return;
  AllKept all = kept_;
  ExemplarWriter writer(*file);
  std::vector<std::byte> bytes;
  for (auto& [name, one] : all) {
    for (std::uint32_t slot = 0; slot < one.held.size(); ++slot) {
      HeldExemplar& held = one.held[slot];
      bytes.resize(held.bytes);
      if (!read_at(file_->file.get(), bytes, held.offset)) writer.fail("it cannot be read");
      held = writer.exemplar(name, slot, one.reservoir.records()[slot], held.label, bytes);
    }
  }
  writer.kept(dropped_before_, names_of(all));
  if (!writer.finish().empty() || !give_name(*file).empty()) {
    ::unlink((path_of(file->number) + std::string(kUnfinished)).c_str());
    return;
  }
  file->bytes = writer.end();
  if (before_) ::unlink(path_of(before_->number).c_str());
  take(file, std::move(all), dropped_before_);
}

// ------------------------------------------------------------------------------- looking ----

std::uint64_t ExemplarLog::dropped_before() const {
  const std::lock_guard lock(mutex_);
  return dropped_before_;
}

bool ExemplarLog::has(const ReservoirName& name) const {
  const std::lock_guard lock(mutex_);
  return kept_.contains(name);
}

bool ExemplarLog::is_empty() const {
  const std::lock_guard lock(mutex_);
  return kept_.empty();
}

ExemplarLog::Sums ExemplarLog::sums() const {
  const std::lock_guard lock(mutex_);
  return {places_.size(), (file_ ? file_->bytes : 0) + (before_ ? before_->bytes : 0)};
}

std::optional<ExemplarLog::Place> ExemplarLog::find(std::uint64_t record) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::lower_bound(places_.begin(), places_.end(), record,
                       [](const auto& one, std::uint64_t sought) { return one.first < sought; });
  if (found == places_.end() || found->first != record) return std::nullopt;
  const HeldExemplar& held = found->second;
  return Place{file_->number, held.offset, held.bytes, held.label};
}

bool ExemplarLog::read(const Place& place, std::span<std::byte> to) const {
  std::shared_ptr<const ExemplarFile> file;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : {file_, before_})
      if (one && one->number == place.file) file = one;
  }
  return file && to.size() == place.bytes && read_at(file->file.get(), to, place.offset);
}

std::string_view ExemplarLog::file_name(std::uint32_t file) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(file);
  return found == names_.end() ? std::string_view("") : found->second;
}

Bytes ExemplarLog::file_bytes(std::uint32_t file) const {
  const std::lock_guard lock(mutex_);
  for (const auto& one : {file_, before_})
    if (one && one->number == file) return one->bytes;
  return 0;
}

}  // namespace batchflow::feeds
