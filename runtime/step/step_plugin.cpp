#include "runtime/step/step_plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/sources/content_hash.h"

namespace batchflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kImageMost = Bytes{256} << 20;
constexpr std::size_t kParametersMost = 16 << 10;  // bytes of names and values

// A sample at fault costs a crash or two; a step that fails this often with no success between
// fails whatever it is given. A hang costs a thread of the service its whole time.
constexpr unsigned kStrikesMost = 64;
constexpr unsigned kCrashStrikes = 4;
constexpr unsigned kStartStrikes = 16;
constexpr unsigned kLateStrikes = 32;
constexpr std::size_t kCulpritsKept = 256;
constexpr std::chrono::seconds kBrokenFor{30};

struct Image {
  Descriptor file;
  Digest digest = 0;
};

Image read_image(const std::filesystem::path& file) {
  const auto failed = [&file](const std::string& why) {
    return StepError(fmt::format("{}: {}", file.string(), why));
  };
  const Descriptor from(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!from || fstat(from.get(), &status) != 0)
    throw failed(fmt::format("cannot be read: {}", std::strerror(errno)));
  const auto bytes = static_cast<Bytes>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes == 0 || bytes > kImageMost)
    throw failed(fmt::format("is no file of 1 byte to {} MiB", kImageMost >> 20));
  Image image;
  std::string problem;
  image.file = make_memory_file("batchflow-plugin", bytes, problem);
  Mapping memory;
  if (image.file) memory = Mapping::of(image.file, bytes, true, problem);
  if (!memory) throw failed(problem);
  for (Bytes at = 0; at < bytes;) {
    const ssize_t now =
        pread(from.get(), memory.memory().data() + at, bytes - at, static_cast<off_t>(at));
    if (now <= 0) throw failed("it changed while it was read; try again");
    at += static_cast<Bytes>(now);
  }
  ContentHash hash;
  hash.add(std::span<const std::byte>(memory.memory()));
  image.digest = hash.digest();
  memory = {};  // or it could not be sealed
  if (fcntl(image.file.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    throw failed(fmt::format("its copy cannot be sealed: {}", std::strerror(errno)));
  return image;
}

std::string parameters_text(const StepPlugin::Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) text += fmt::format(" {}={}", name, value);
  return text;
}

}  // namespace

std::shared_ptr<StepPlugin> StepPlugin::open(const std::filesystem::path& file,
                                             Parameters parameters, const Field& input,
                                             const StepSettings& settings) {
  const std::string written = parameters_text(parameters);
  if (written.size() > kParametersMost)
    throw StepError(fmt::format("its parameters have more than {} bytes", kParametersMost));
  Image image = read_image(file);
  std::shared_ptr<StepPlugin> plugin(new StepPlugin);
  StepSource& source = plugin->source_;
  source.file = file;
  source.image = std::move(image.file);
  source.parameters = std::move(parameters);
  source.input = input;
  source.settings = settings;
  StepProcess process(source);
  std::optional<StepDeclaration> declared = process.start(0, 0);
  if (!declared) throw StepError(fmt::format("{}: {}", file.string(), process.problem()));
  plugin->declared_ = std::move(*declared);
  plugin->text_ =
      fmt::format("plugin {}/{} {} {:016x}{}", plugin->declared_.name, plugin->declared_.version,
                  plugin->declared_.random ? "random" : "deterministic", image.digest, written);
  return plugin;
}

bool StepPlugin::is_broken() const {
  return strikes_ >= kStrikesMost && Clock::now().time_since_epoch().count() < broken_until_;
}

void StepPlugin::strike(unsigned strikes, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    last_failure_ = why;
  }
  strikes_ += strikes;
  broken_until_ = (Clock::now() + kBrokenFor).time_since_epoch().count();
}

bool StepPlugin::is_known(SampleId culprit) {
  const std::lock_guard lock(mutex_);
  if (std::find(culprits_.begin(), culprits_.end(), culprit) != culprits_.end()) return true;
  culprits_.push_back(culprit);
  if (culprits_.size() > kCulpritsKept) culprits_.pop_front();
  return false;
}

std::string StepPlugin::last_failure() const {
  const std::lock_guard lock(mutex_);
  return last_failure_;
}

void StepPlugin::could_not_start(const std::string& why) {
  strike(kStartStrikes, why);
}

void StepPlugin::ended(StepResult how, SampleId sample, Duration took, const std::string& problem) {
  if (how == StepResult::crashed || how == StepResult::late) {
    ++(how == StepResult::late ? late_ : crashes_);
    // Those at fault are tried once more, one after the other: that tells nothing new of the step.
    if (is_known(sample)) return;
    return strike(how == StepResult::late ? kLateStrikes : kCrashStrikes, problem);
  }
  ++(how == StepResult::done ? samples_ : corrupt_);
  busy_ns_ += took.count();
  strikes_ = 0;
}

StepCounters StepPlugin::counters() const {
  return {samples_, corrupt_, starts_, crashes_, late_, Duration(busy_ns_)};
}

}  // namespace batchflow
