#include "runtime/sources/stored_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/sources/bundles.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/packed.h"

namespace batchflow::sources {

std::unique_ptr<IndexBytes> IndexBytes::map(const std::filesystem::path& file) {
  const protocol::Descriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
    return nullptr;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (BF_FAILPOINT("sources.index.map")) return errno = ENOMEM, nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<IndexBytes>(
      new IndexBytes(std::span(static_cast<const std::byte*>(memory), bytes)));
}

IndexBytes::~IndexBytes() {
  if (mapped_.data() != nullptr) munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

StoredIndex::StoredIndex(std::string name, std::unique_ptr<IndexBytes> bytes, IndexView view,
                         std::vector<std::string> notes)
    : name_(std::move(name)),
      bytes_(std::move(bytes)),
      view_(std::move(view)),
      notes_(std::move(notes)) {
  notes_.insert(notes_.end(), view_.head().notes.begin(), view_.head().notes.end());
}

Extent StoredIndex::extent(SampleId sample) const {
  BF_CHECK(sample.value < samples());
  return view_.extent(sample.value);
}

std::optional<std::int64_t> StoredIndex::label(SampleId sample) const {
  BF_CHECK(sample.value < samples());
  const std::int64_t label = view_.label(sample.value);
  return label == kNoLabel ? std::nullopt : std::optional(label);
}

std::string StoredIndex::sample_name(SampleId sample) const {
  BF_CHECK(sample.value < samples());
  return view_.name(sample.value);
}

std::string_view StoredIndex::path(std::uint32_t file) const {
  BF_CHECK(file < files());
  return view_.path(file);
}

Bytes StoredIndex::file_bytes(std::uint32_t file) const {
  BF_CHECK(file < files());
  return view_.file_bytes(file);
}

namespace {

// Further endings are counted together, since names of files may end in anything.
constexpr std::size_t kEndingsMost = 256;
constexpr std::size_t kEndingMost = 16;

std::string ending_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot > kEndingMost) return {};
  std::string ending(name.substr(dot));
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return ending;
}

void count_ending(std::string_view path, IndexSums& sums) {
  std::string ending = ending_of(path);
  if (sums.endings.size() >= kEndingsMost && !sums.endings.contains(ending)) ending.clear();
  ++sums.endings[std::move(ending)];
}

}  // namespace

void StopCheck::now() const {
  if (stop_ && stop_()) throw DatasetError("stopped while its samples were looked through");
}

const IndexSums& SampleIndex::sums(const StopAsked& stop) const {
  std::call_once(summed_, [this, &stop] {
    IndexSums sums;
    if (const auto uniform = uniform_bytes()) {
      sums.total = samples() * *uniform;
      sums.largest = std::max<Bytes>(1, *uniform);
      sums_ = sums;
      return;
    }
    if (auto known = known_sums()) {
      sums_ = std::move(*known);
      return;
    }
    StopCheck check(stop);
    for (SampleId sample(0); sample.value < samples(); ++sample.value) {
      check();
      const Bytes bytes = extent(sample).bytes;
      sums.total += bytes;
      sums.largest = std::max(sums.largest, bytes);
      if (label(sample)) ++sums.labelled;
      if (kind() == RecordKind::whole) count_ending(path(extent(sample).file), sums);
    }
    sums_ = std::move(sums);
  });
  return sums_;
}

std::optional<Bytes> StoredIndex::uniform_bytes() const {
  const bool is_uniform = kind() == RecordKind::rows && !view_.has_labels();
  return is_uniform ? std::optional(view_.head().row_bytes) : std::nullopt;
}

namespace {

// Throws DatasetError when it is to stop.
void add_bundles(const SampleIndex& index, const StopAsked& stop, engine::Catalogue::Parts& parts) {
  const Bytes total = parts.bytes.empty()
                          ? parts.samples * parts.uniform_bytes
                          : std::accumulate(parts.bytes.begin(), parts.bytes.end(), Bytes{0});
  parts.bundle_shift = bundle_shift(index, total, stop);
  if (parts.bundle_shift == 0 || (parts.bytes.empty() && index.is_dense())) return;
  StopCheck check(stop);
  std::vector<Extent> lies;
  for (SampleId first(0); first.value < parts.samples;
       first.value += std::uint64_t{1} << parts.bundle_shift) {
    check();
    stretches(index, parts.bundle_shift, first, lies);
    Bytes bytes = 0;
    for (const Extent& one : lies) bytes += one.bytes;
    parts.bundle_bytes.push_back(bytes);
  }
}

}  // namespace

engine::Catalogue StoredIndex::catalogue_of(const SampleIndex& index, const StopAsked& stop) {
  // Larger labels are no classes; a model predicts something else.
  constexpr std::int64_t kClassesMost = 1 << 24;
  engine::Catalogue::Parts parts;
  parts.name = index.name();
  parts.version = index.version();
  parts.samples = index.samples();
  bool labelled = !index.uniform_bytes();
  std::int64_t greatest = static_cast<std::int64_t>(index.classes().size()) - 1;
  const bool uniform = index.kind() == RecordKind::rows;
  if (uniform) parts.uniform_bytes = index.extent(SampleId(0)).bytes;
  StopCheck check(stop);
  for (SampleId sample(0); sample.value < parts.samples; ++sample.value) {
    check();
    if (!uniform) parts.bytes.push_back(index.extent(sample).bytes);
    if (!labelled && uniform) break;
    if (!labelled) continue;
    const std::int64_t label = index.label(sample).value_or(-1);
    labelled = label >= 0 && label < kClassesMost;
    greatest = std::max(greatest, label);
    if (labelled) parts.labels.push_back(static_cast<std::uint32_t>(label));
  }
  if (labelled) parts.classes = static_cast<std::uint32_t>(greatest + 1);
  if (!labelled) parts.labels = {};
  add_bundles(index, stop, parts);
  std::string problem;
  auto catalogue = engine::Catalogue::from(std::move(parts), problem);
  if (!catalogue) throw DatasetError(fmt::format("{}: {}", index.name(), problem));
  return std::move(*catalogue);
}

}  // namespace batchflow::sources
