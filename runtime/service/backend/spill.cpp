#include "runtime/service/backend/spill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::service {
namespace {

// After this many faults a drive is not used any more.
constexpr std::uint64_t kFaultsMost = 64;
// An entry here and one in the map, and what free runs of pages take.
constexpr Bytes kBytesPerEntry = 128;
constexpr std::size_t kEntriesAtOnce = 4096;
// The number of a page has 32 bits, and the last one has no meaning.
constexpr Bytes kFileMost = (Bytes{1} << 44) - storage::FreePages::kPage;

std::string text_of(int error) {
  return std::generic_category().message(error);
}

std::string mib(Bytes bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

// A file without a name. If the file system demands a name, it is removed at once.
protocol::Descriptor open_unnamed(const std::string& folder) {
  for (const int direct : {O_DIRECT, 0}) {
    protocol::Descriptor file(
        ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL | direct, 0600));
    if (file) return file;
  }
  std::string name = folder + "/batchflow-spill-XXXXXX";
  protocol::Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) return file;
  ::unlink(name.c_str());
  // If the file system knows no O_DIRECT, what is kept is in the page cache, too.
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) | O_DIRECT);
  return file;
}

int allocate(int file, Bytes bytes) {
  if (BF_FAILPOINT("service.spill.allocate")) return ENOSPC;
  if (BF_FAILPOINT("service.spill.reserve")) return EOPNOTSUPP;  // as some file systems answer
  while (::fallocate(file, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

Spill::Spill(const SpillOptions& options, MemoryBudget& budget)
    : asked_(options), budget_(budget), path_(options.path.string()) {
  const auto fail = [&](const std::string& why) {
    throw ConfigError(
        fmt::format("spill: {}: {}; choose another folder (--spill PATH,SIZE)", path_, why));
  };
  std::error_code error;
  // Makes only this folder: if a drive is not mounted, its files would come to lie on another
  // drive.
  std::filesystem::create_directory(options.path, error);
  if (error) fail(fmt::format("cannot be made: {}", error.message()));
  file_ = open_unnamed(path_);
  if (!file_) fail(fmt::format("no file can be made there: {}", text_of(errno)));

  Bytes bytes =
      std::min(options.bytes, kFileMost) / storage::FreePages::kPage * storage::FreePages::kPage;
  int refused = allocate(file_.get(), bytes);
  if (refused == ENOSPC || refused == EFBIG || refused == EDQUOT) {
    // Some file systems keep what they reserved before the room ended.
    if (::ftruncate(file_.get(), 0) != 0) fail(text_of(errno));
    // All room that there is, except what a file system needs to work well.
    struct statvfs left {};
    const Bytes room = ::fstatvfs(file_.get(), &left) == 0 ? left.f_bavail * left.f_frsize : 0;
    bytes =
        std::min(bytes, room - room / 16) / storage::FreePages::kPage * storage::FreePages::kPage;
    if (bytes >= kLeast) refused = allocate(file_.get(), bytes);
    note_ = refused == 0 ? fmt::format("{} has room for {} of {}; the spill tier is that much",
                                       path_, mib(bytes), mib(options.bytes))
                         : fmt::format("{} has no room ({}); there is no spill tier", path_,
                                       text_of(refused));
    if (refused != 0) {
      file_.reset();
      return;
    }
  } else if (refused != 0) {
    // Whether there is room shows only when it is written.
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
      fail(fmt::format("no file of {} can be made there: {}", mib(bytes), text_of(errno)));
    note_ = fmt::format(
        "{}: room cannot be set aside ({}); the spill tier ends where the disk "
        "is full",
        path_, text_of(refused));
  }
  capacity_ = bytes - bytes / 16;
  free_pages_ = storage::FreePages(storage::FreePages::pages_of(bytes));
}

bool Spill::is_still(const SpillOptions& options) const {
  std::error_code error;
  return options == asked_ && capacity_ > 0 && std::filesystem::is_directory(options.path, error);
}

std::string Spill::description() const {
  return note_.empty() ? fmt::format("{} at {}", mib(capacity_), path_) : note_;
}

std::optional<Spill::Found> Spill::find(DatasetId dataset, SampleId sample) const {
  const std::uint32_t index = where_.find(key(dataset, sample));
  if (index == kNone || entries_[index].writing) return std::nullopt;
  const Entry& entry = entries_[index];
  return Found{entry.page * std::uint64_t{storage::FreePages::kPage}, entry.bytes, entry.sum};
}

std::optional<Spill::Writing> Spill::begin(DatasetId dataset, SampleId sample, Bytes bytes) {
  drop(dataset, sample);
  if (capacity_ == 0 || bytes == 0 || bytes > UINT32_MAX) return std::nullopt;
  if (free_entries_.empty() && entries_.size() == memory_.size() * kEntriesAtOnce) {
    MemoryCharge charge(budget_, kEntriesAtOnce * kBytesPerEntry);
    if (!charge) return std::nullopt;
    memory_.push_back(std::move(charge));
  }
  auto page = free_pages_.take(storage::FreePages::pages_of(bytes));
  if (!page && drop_aside()) page = free_pages_.take(storage::FreePages::pages_of(bytes));
  if (!page) return std::nullopt;
  if (free_entries_.empty()) {
    free_entries_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const std::uint32_t index = free_entries_.back();
  free_entries_.pop_back();
  entries_[index] = {key(dataset, sample),
                     0,
                     static_cast<std::uint32_t>(*page),
                     static_cast<std::uint32_t>(bytes),
                     true,
                     false};
  pages_used_ += storage::FreePages::pages_of(bytes);
  count(index);
  where_.set(key(dataset, sample), index);
  return Writing{index, *page * storage::FreePages::kPage};
}

void Spill::end(std::uint32_t index, Digest sum, int error) {
  Entry& entry = entries_[index];
  BF_CHECK(entry.writing);
  entry.writing = false;
  entry.sum = sum;
  const Bytes bytes = entry.bytes;
  if (entry.dropped || error != 0) {
    where_.erase(entry.key, index);
    free(index);
  }
  if (error == 0) {
    ++counters_.written_samples;
    counters_.written_bytes += bytes;
    return;
  }
  ++counters_.errors;
  if (error == ECANCELED) return;  // the service ends
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    shrink(used(), fmt::format("{}: {}", path_, text_of(error)));
  } else {
    count_fault(error);
  }
}

void Spill::drop(DatasetId dataset, SampleId sample) {
  const std::uint32_t index = where_.find(key(dataset, sample));
  if (index == kNone) return;
  where_.erase(key(dataset, sample));
  // While a write is under way, its pages stay its own.
  if (entries_[index].writing) {
    entries_[index].dropped = true;
  } else {
    free(index);
  }
}

void Spill::drop(ShareId share, ItemId item) {
  const auto dataset = datasets_.find(share.value);
  if (dataset != datasets_.end()) drop(dataset->second, SampleId(item.value));
}

void Spill::count(std::uint32_t index) {
  Sum& sum = sums_[dataset_in(entries_[index].key).value];
  ++sum.items;
  sum.bytes += storage::FreePages::pages_of(entries_[index].bytes) * storage::FreePages::kPage;
}

void Spill::free(std::uint32_t index) {
  Sum& sum = sums_[dataset_in(entries_[index].key).value];
  --sum.items;
  sum.bytes -= storage::FreePages::pages_of(entries_[index].bytes) * storage::FreePages::kPage;
  give_back(index);
}

void Spill::give_back(std::uint32_t index) {
  const storage::FreePages::Page pages = storage::FreePages::pages_of(entries_[index].bytes);
  free_pages_.give_back(entries_[index].page, pages);
  pages_used_ -= pages;
  free_entries_.push_back(index);
}

void Spill::put_aside(const std::function<std::optional<Digest>(DatasetId)>& version_of) {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    Entry& entry = entries_[index];
    const bool can_be_found = where_.find(entry.key) == index;
    if (!can_be_found && !entry.writing) continue;  // it is free, or aside already
    const std::optional<Digest> version =
        entry.writing ? std::nullopt : version_of(dataset_in(entry.key));
    entry.writing = entry.dropped = false;
    const bool is_new = version && aside_[*version].emplace(entry.key & UINT32_MAX, index).second;
    if (!is_new) give_back(index);
  }
  where_ = {};
  datasets_.clear();
  sums_.clear();
  change_.reset();
  counters_ = {};
}

std::vector<SampleId> Spill::aside(Digest version) const {
  std::vector<SampleId> all;
  const auto found = aside_.find(version);
  if (found == aside_.end()) return all;
  for (const auto& [sample, index] : found->second) all.emplace_back(sample);
  return all;
}

void Spill::adopt(Digest version, DatasetId dataset, ShareId share) {
  open(share, dataset);
  const auto found = aside_.extract(version);
  if (!found) return;
  for (const auto& [sample, index] : found.mapped()) {
    const std::uint64_t name = key(dataset, SampleId(sample));
    if (where_.has(name)) {  // it was written anew meanwhile
      give_back(index);
      continue;
    }
    entries_[index].key = name;
    where_.set(name, index);
    count(index);
  }
}

// False: nothing was aside.
bool Spill::drop_aside() {
  for (const auto& [version, samples] : aside_) {
    for (const auto& [sample, index] : samples) give_back(index);
  }
  return !std::exchange(aside_, {}).empty();
}

void Spill::was_read(Bytes bytes) {
  ++counters_.read_samples;
  counters_.read_bytes += bytes;
}

void Spill::failed(DatasetId dataset, SampleId sample, int error) {
  missed();
  drop(dataset, sample);
  ++(error == 0 ? counters_.mismatched : counters_.errors);
  if (error != ECANCELED) count_fault(error);
}

void Spill::count_fault(int error) {
  if (++faults_ < kFaultsMost) return;
  shrink(0, fmt::format("{}: {} reads and writes failed, the last: {}", path_, faults_,
                        error == 0 ? "other bytes than were written" : text_of(error)));
}

void Spill::shrink(Bytes capacity, std::string why) {
  if (capacity < kLeast) capacity = 0;
  if (capacity >= capacity_) return;
  capacity_ = capacity;
  change_ = Change{capacity, std::move(why)};
}

std::optional<Spill::Change> Spill::take_change() {
  return std::exchange(change_, std::nullopt);
}

}  // namespace batchflow::service
