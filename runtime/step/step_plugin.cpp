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

namespace batchflow::step {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kImageMost = Bytes{256} << 20;
constexpr std::size_t kParametersMost = 16 << 10;  // bytes of names and values

// A sample at fault costs a crash or two. A step that fails this often, without a success between,
// fails with any sample. A hang takes all the time of a thread of the service.
constexpr unsigned kStrikesMost = 64;
constexpr unsigned kCrashStrikes = 4;
constexpr unsigned kStartStrikes = 16;
constexpr unsigned kLateStrikes = 32;
constexpr std::size_t kCulpritsKept = 256;
constexpr std::chrono::seconds kBrokenFor{30};

struct Image {
  protocol::Descriptor file;
  Digest digest = 0;
};

// Makes a sealed memory file and lets `fill` fill it; `fill` may throw.
template <class Fill>
Image make_image(Bytes bytes, Fill&& fill) {
  Image image;
  std::string problem;
  image.file = protocol::make_memory_file("batchflow-plugin", bytes, problem);
  protocol::Mapping memory;
  if (image.file) memory = protocol::Mapping::map_file(image.file, bytes, true, problem);
  if (!memory) throw StepError(problem);
  fill(memory.memory());
  sources::ContentHash hash;
  hash.add(std::span<const std::byte>(memory.memory()));
  image.digest = hash.digest();
  memory = {};  // or it could not be sealed
  if (fcntl(image.file.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    throw StepError(fmt::format("its copy cannot be sealed: {}", std::strerror(errno)));
  return image;
}

Image read_image(const std::filesystem::path& file) {
  const protocol::Descriptor from(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!from || fstat(from.get(), &status) != 0)
    throw StepError(fmt::format("cannot be read: {}", std::strerror(errno)));
  const auto bytes = static_cast<Bytes>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes == 0 || bytes > kImageMost)
    throw StepError(fmt::format("is no file of 1 byte to {} MiB", kImageMost >> 20));
  return make_image(bytes, [&](std::span<std::byte> memory) {
    for (Bytes at = 0; at < bytes;) {
      const ssize_t now = pread(from.get(), memory.data() + at, bytes - at, static_cast<off_t>(at));
      if (now <= 0) throw StepError("it changed while it was read; try again");
      at += static_cast<Bytes>(now);
    }
  });
}

std::string parameters_text(const StepPlugin::Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) text += fmt::format(" {}={}", name, value);
  return text;
}

}  // namespace

std::shared_ptr<StepPlugin> StepPlugin::open(const std::filesystem::path& file,
                                             Parameters parameters, const batch::Field& input,
                                             const StepSettings& settings) {
  const std::string written = parameters_text(parameters);
  std::shared_ptr<StepPlugin> plugin(new StepPlugin);
  plugin->source_ = {file, {}, {}, std::move(parameters), input, settings};
  try {
    if (written.size() > kParametersMost)
      throw StepError(fmt::format("its parameters have more than {} bytes", kParametersMost));
    Image image = read_image(file);
    plugin->source_.image = std::move(image.file);
    plugin->declare("plugin", image.digest, written);
  } catch (const StepError& error) {
    throw StepError(fmt::format("{}: {}", file.string(), error.what()));
  }
  return plugin;
}

std::shared_ptr<StepPlugin> StepPlugin::open_python(const std::string& bundle,
                                                    const std::filesystem::path& named,
                                                    Parameters places, StepInterpreter interpreter,
                                                    const batch::Field& input,
                                                    const StepSettings& settings) {
  // Where the function stands in its file does not change what it does.
  const std::string written = " " + interpreter.program;
  std::shared_ptr<StepPlugin> plugin(new StepPlugin);
  plugin->source_ = {named, {}, std::move(interpreter), std::move(places), input, settings};
  try {
    if (bundle.empty()) throw StepError("there is no function");
    if (parameters_text(plugin->source_.parameters).size() > kParametersMost)
      throw StepError(fmt::format("it stands at places of more than {} bytes", kParametersMost));
    Image image = make_image(bundle.size(), [&](std::span<std::byte> memory) {
      std::memcpy(memory.data(), bundle.data(), bundle.size());
    });
    plugin->source_.image = std::move(image.file);
    plugin->declare("python", image.digest, written);
  } catch (const StepError& error) {
    throw StepError(fmt::format("{}: {}", named.string(), error.what()));
  }
  return plugin;
}

// Asks a process of its own what it makes.
void StepPlugin::declare(std::string_view kind, Digest image, const std::string& written) {
  StepProcess process(source_);
  std::optional<StepDeclaration> declared = process.start(0, 0);
  if (!declared) throw StepError(process.problem());
  declared_ = std::move(*declared);
  folder_problem_ = process.folder_problem();
  text_ = fmt::format("{} {}/{} {} {:016x}{}", kind, declared_.name, declared_.version,
                      declared_.random ? "random" : "deterministic", image, written);
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

void StepPlugin::ended(StepResult how, SampleId sample, bool is_first, Duration took,
                       const std::string& problem) {
  if (how == StepResult::crashed || how == StepResult::late) {
    ++(how == StepResult::late ? late_ : crashes_);
    // Samples at fault are tried once more, one after the other: that shows nothing new about the
    // step.
    if (is_known(sample)) return;
    // The process has done other samples and hangs at this one: as many may do so at once as there
    // are workers.
    if (how == StepResult::late && !is_first) return;
    return strike(how == StepResult::late ? kLateStrikes : kCrashStrikes, problem);
  }
  ++(how == StepResult::done ? samples_ : corrupt_);
  busy_ns_ += took.count();
  strikes_ = 0;
}

StepCounters StepPlugin::counters() const {
  return {samples_, corrupt_, starts_, crashes_, late_, Duration(busy_ns_)};
}

}  // namespace batchflow::step
