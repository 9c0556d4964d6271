#include "runtime/ctl/verify_dataset.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "fmt/format.h"
#include "programs/output/terminal.h"
#include "runtime/audio/sound_file.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/file_kinds.h"
#include "runtime/sources/record.h"

namespace batchflow::ctl {
namespace {

constexpr std::uint64_t kAtOnce = 64;               // samples that a thread takes at a time
constexpr Bytes kInMemoryMost = Bytes{1} << 30;     // of one sample
constexpr std::size_t kPieceOfPlainFile = 1 << 20;  // files without checksums are read in pieces
constexpr std::size_t kFirstBytes = 64;             // enough to recognise a picture
constexpr int kTries = 3;
constexpr std::chrono::milliseconds kBeforeNextTry{20};

// Whether a name says that this is a picture: it ends in `jpg` or the like.
bool is_called_picture(std::string_view name) {
  std::string ending = "." + std::string(name.substr(name.find_last_of('.') + 1));
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return sources::is_called_picture(ending);
}

bool is_called_sound(std::string_view name) {
  const std::string_view ending = name.substr(name.find_last_of('.') + 1);
  for (const std::string_view one : {"wav", "flac", "ogg", "opus", "WAV", "FLAC"})
    if (ending == one) return true;
  return false;
}

// By its first bytes: WAV, FLAC, or Ogg with a sound in it.
bool is_sound(std::span<const std::byte> bytes) {
  const std::string_view begin = sources::as_text(bytes.first(std::min(bytes.size(), kFirstBytes)));
  return (begin.starts_with("RIFF") && begin.substr(8).starts_with("WAVE")) ||
         begin.starts_with("fLaC") ||
         (begin.starts_with("OggS") &&
          (begin.find("OpusHead") != begin.npos || begin.find("\x01vorbis") != begin.npos));
}

// Prepares samples by a pipeline, as the service would.
class Trial {
 public:
  Trial(const prepare::Pipeline& pipeline, const sources::SampleIndex& index)
      : pipeline_(pipeline), index_(index) {}

  // Answers what is wrong; empty: nothing.
  std::string prepare(SampleId sample, std::span<const std::byte> bytes) {
    prepare::Preparer::Input input{.sample = sample, .bytes = bytes};
    input.label = index_.label(sample).value_or(-1);
    input.draw_key = sample.value;
    const batch::BlockWriter out(layout_, slot_.data());
    const prepare::Prepared done = preparer_->prepare(pipeline_, input, out, 0, nullptr);
    std::string problem(done == prepare::Prepared::done ? "" : preparer_->problem());
    preparer_->end_sample();
    if (done == prepare::Prepared::failed) throw sources::DatasetError(problem);
    return problem;
  }

 private:
  const prepare::Pipeline& pipeline_;
  const sources::SampleIndex& index_;
  const batch::BlockLayout layout_{pipeline_.spec(), 1};
  std::vector<std::byte> slot_ = std::vector<std::byte>(static_cast<std::size_t>(layout_.bytes));
  std::unique_ptr<prepare::Preparer> preparer_ = prepare::make_preparer();
};

// Checks one sample after another. Each thread has one.
class Checker {
 public:
  Checker(const sources::SampleIndex& index, const sources::DataRoot& root,
          const VerifyOptions& options)
      : index_(index), root_(root), kinds_(options.kinds) {
    if (options.pipeline) trial_.emplace(*options.pipeline, index);
  }

  // Counts the sample in `report`, and answers what is wrong with it, if anything.
  std::optional<Finding> check(SampleId sample, VerifyReport& report) {
    for (int tries = 1;; ++tries) {
      try {
        const std::string problem = check_once(sample, report);
        if (problem.empty()) return std::nullopt;
        return finding(sample, is_undecided_ ? Finding::What::unreadable : Finding::What::corrupt,
                       problem);
      } catch (const sources::DatasetError& error) {
        file_.reset();
        if (tries == kTries) return finding(sample, Finding::What::unreadable, error.what());
        std::this_thread::sleep_for(kBeforeNextTry * tries);
      }
    }
  }

 private:
  Finding finding(SampleId sample, Finding::What what, std::string why) const {
    return {sample.value, what, index_.sample_name(sample), std::move(why)};
  }

  // Throws DatasetError where the sample cannot be read.
  std::string check_once(SampleId sample, VerifyReport& report) {
    is_undecided_ = false;
    const sources::Extent extent = index_.extent(sample);
    if (!file_ || extent.file != open_) {
      file_ = opened(extent.file);
      open_ = extent.file;
    }
    const std::string_view path = index_.path(extent.file);
    if (file_->size() < extent.offset + extent.bytes)
      throw sources::DatasetError(
          "it is shorter than when it was indexed; start again when it is not written to");
    const bool is_whole = index_.kind() == sources::RecordKind::whole;
    const bool is_plain = is_whole && !trial_ && !is_called_picture(path) &&
                          !is_called_sound(path) && !is_picture(file_->view(0, kFirstBytes)) &&
                          !is_sound(file_->view(0, kFirstBytes));
    if (is_plain) {
      for (Bytes at = 0; at < extent.bytes; at += kPieceOfPlainFile)
        file_->view(at, std::min<Bytes>(kPieceOfPlainFile, extent.bytes - at));
      report.bytes += extent.bytes;
      return "";
    }
    if (extent.bytes > kInMemoryMost)
      return fmt::format("{} bytes are more than a sample may have", extent.bytes);
    const std::span<const std::byte> record = file_->view(extent.offset, extent.bytes);
    report.bytes += extent.bytes;
    if (!parts_.find(index_.kind(), record, index_.stored_fields()))
      return std::string(parts_.problem());
    if (index_.kind() == sources::RecordKind::example ||
        index_.kind() == sources::RecordKind::packed)
      ++report.checksums;
    for (const sources::Part& part : parts_.parts()) {
      if (part.type != batch::ElementType::u8) continue;
      const std::string_view name = is_whole                                    ? path
                                    : index_.kind() == sources::RecordKind::tar ? part.name
                                                                                : "";
      const bool sounds = is_called_sound(name) || is_sound(part.bytes);
      if (!sounds && !is_called_picture(name) && !is_picture(part.bytes)) continue;
      const std::string problem = sounds ? decode_sound(part.bytes) : decode(part.bytes);
      if (!problem.empty()) return is_whole ? problem : fmt::format("{}: {}", part.name, problem);
      ++(sounds ? report.sounds : report.pictures);
    }
    if (!trial_) return "";
    const std::string problem = trial_->prepare(sample, record);
    if (problem.empty()) ++report.prepared;
    return problem;
  }

  std::unique_ptr<sources::DatasetFile> opened(std::uint32_t file) const {
    if (!root_.store)
      return std::make_unique<sources::DatasetFile>(root_.folder.get(), index_.path(file));
    return std::make_unique<sources::DatasetFile>(
        root_, index_.path(file),
        objects::ObjectInfo{index_.file_bytes(file), index_.file_mark(file)});
  }

  bool is_picture(std::span<const std::byte> bytes) const {
    return prepare::picture_kind(bytes, kinds_) != nullptr;
  }

  std::string decode_sound(std::span<const std::byte> bytes) {
    is_undecided_ = !audio::has_sound_files();
    if (is_undecided_)
      return fmt::format("sound, which this build does not decode: it was made without {}",
                         audio::kSoundPackage);
    if (!sound_.open(bytes)) return sound_.problem();
    const audio::SoundHead& head = sound_.head();
    is_undecided_ = head.frames > kInMemoryMost / sizeof(float) / std::max(1U, head.channels);
    if (!is_undecided_) waves_.resize(head.frames * head.channels);
    const bool is_well = !is_undecided_ && sound_.read(waves_);
    sound_.close();
    if (is_undecided_) return "its waves take more memory than a sample may";
    return is_well ? "" : sound_.problem();
  }

  std::string decode(std::span<const std::byte> bytes) {
    prepare::Decoder* const decoder = decoders_.find(bytes);
    is_undecided_ = !decoder && is_picture(bytes);
    if (!decoder) return decoders_.problem();
    if (!decoder->open(bytes, {})) return std::string(decoder->problem());
    const prepare::Box got = decoder->decode(prepare::whole(decoder->extent()), picture_);
    return got.width == 0 || got.height == 0 ? std::string(decoder->problem()) : "";
  }

  const sources::SampleIndex& index_;
  const sources::DataRoot& root_;
  std::unique_ptr<sources::DatasetFile> file_;
  std::uint32_t open_ = 0;
  sources::RecordParts parts_;
  const std::span<const prepare::PictureKind> kinds_;
  prepare::PictureDecoders decoders_{kinds_};
  // The last sample is of a kind that this build does not decode.
  bool is_undecided_ = false;
  audio::SoundFile sound_;
  std::vector<float> waves_;
  std::optional<Trial> trial_;
  prepare::PictureBuffer picture_;
};

class Verification {
 public:
  Verification(const sources::SampleIndex& index, const sources::DataRoot& root,
               const VerifyOptions& options)
      : index_(index), root_(root), options_(options) {}

  VerifyReport run() {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, options_.threads); ++i)
      threads.emplace_back([this] { work(); });
    watch(threads.size());
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    for (auto& [key, finding] : findings_) report_.findings.push_back(std::move(finding));
    report_.stopped = ending_;
    return std::move(report_);
  }

 private:
  void work() {
    try {
      Checker checker(index_, root_, options_);
      for (;;) {
        const std::uint64_t first = next_.fetch_add(kAtOnce);
        if (first >= index_.samples() || ending_) break;
        check_samples(checker, first, std::min(index_.samples(), first + kAtOnce));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      ending_ = true;
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }

  void check_samples(Checker& checker, std::uint64_t first, std::uint64_t last) {
    VerifyReport seen;
    for (std::uint64_t key = first; key < last && !ending_; ++key) {
      const std::optional<Finding> found = checker.check(SampleId(key), seen);
      ++seen.samples;
      if (found) add(*found);
    }
    const std::lock_guard lock(mutex_);
    report_.samples += seen.samples;
    report_.bytes += seen.bytes;
    report_.checksums += seen.checksums;
    report_.pictures += seen.pictures;
    report_.sounds += seen.sounds;
    report_.prepared += seen.prepared;
  }

  void add(const Finding& found) {
    const std::lock_guard lock(mutex_);
    ++(found.what == Finding::What::corrupt ? report_.corrupt : report_.unreadable);
    findings_.emplace(found.key, found);
    if (findings_.size() > options_.findings_most) findings_.erase(std::prev(findings_.end()));
  }

  void watch(std::size_t threads) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100),
                              [&] { return ended_ == threads; })) {
      const std::uint64_t done = report_.samples;
      lock.unlock();
      if (options_.progress) options_.progress(done, index_.samples(), "samples read");
      if (options_.stop && options_.stop()) ending_ = true;
      lock.lock();
    }
  }

  const sources::SampleIndex& index_;
  const sources::DataRoot& root_;
  const VerifyOptions& options_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // for all members below
  std::condition_variable changed_;
  std::size_t ended_ = 0;
  std::exception_ptr failure_;
  std::map<std::uint64_t, Finding> findings_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify_dataset(const sources::SampleIndex& index, const sources::DataRoot& root,
                            const VerifyOptions& options) {
  return Verification(index, root, options).run();
}

VerifyReport verify_dataset(const OpenedDataset& data, const std::string& called,
                            VerifyOptions options) {
  output::ProgressBar bar("verifying " + called);
  options.stop = output::was_interrupted;
  options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view) {
    bar.show(static_cast<double>(done) / static_cast<double>(total),
             fmt::format("{} of {} samples", done, total));
  };
  VerifyReport report = verify_dataset(*data.index, *data.data, options);
  output::check_interrupted();
  return report;
}

}  // namespace batchflow::ctl
