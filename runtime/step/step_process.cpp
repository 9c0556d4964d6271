#include "runtime/step/step_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/own_group.h"
#include "runtime/step/wire.h"

namespace batchflow::step {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kPage = 4096;
// Above the descriptors that a worker has, so that none is lost when they are moved to their
// numbers.
constexpr int kAboveWorkers = 16;
constexpr std::chrono::milliseconds kLookAround{100};
constexpr std::size_t kSaidMost = 200;

Bytes whole_pages(Bytes bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

protocol::Descriptor moved_up(protocol::Descriptor descriptor) {
  return protocol::Descriptor(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, kAboveWorkers));
}

// Addresses that Python and NumPy reserve and hardly touch, and that the limit counts.
constexpr Bytes kReservedByInterpreters = Bytes{64} << 20;

std::filesystem::path worker_program(const StepSettings& settings) {
  if (!settings.worker.empty()) return settings.worker;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() /
         "batchflow-step-worker";
}

// What a library may look for, and nothing else of the service's environment.
std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (const char* name : {"PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH"})
    if (const char* value = std::getenv(name)) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// The text is from a process that may write anything.
template <std::size_t size>
std::string text_of(const char (&text)[size]) {
  std::string out(text, strnlen(text, size));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

std::string ending_of(int status) {
  if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const char* const name = sigabbrev_np(WTERMSIG(status));
  return fmt::format("crashed (SIG{})", name ? name : "?");
}

bf_step_array step_array(const batch::Field& field) {
  bf_step_array array{};
  array.type = static_cast<std::uint32_t>(field.type);
  array.dimensions = static_cast<std::uint32_t>(field.shape.size());
  std::copy(field.shape.begin(), field.shape.end(), array.shape);
  array.ragged = field.ragged ? 1 : 0;
  std::memcpy(array.name, field.name.data(), std::min(field.name.size(), batch::Field::kNameMost));
  return array;
}

// Empty for what cannot be a field: a plugin may say anything.
std::optional<batch::Field> field_of(const bf_step_array& array) {
  if (array.type >= batch::kElementTypes || array.dimensions > batch::Field::kDimensionsMost)
    return std::nullopt;
  batch::Field field;
  field.name = text_of(array.name);
  field.type = static_cast<batch::ElementType>(array.type);
  field.shape.assign(array.shape, array.shape + array.dimensions);
  field.ragged = array.ragged != 0;
  return field;
}

}  // namespace

std::optional<StepDeclaration> StepProcess::start(Bytes input, Bytes output) {
  end();
  problem_.clear();
  if (!make_areas(input, output) || BF_FAILPOINT("step.start") || !spawn()) {
    if (problem_.empty()) problem_ = "its process cannot be started";
    return std::nullopt;
  }
  const std::string setup = setup_message();
  StepDeclared declared;
  if (::send(socket_.get(), setup.data(), setup.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
          static_cast<ssize_t>(setup.size()) ||
      !receive(std::as_writable_bytes(std::span(&declared, 1)), source_.settings.start_timeout)) {
    lose();
    problem_ += late_ ? " to start" : " when it was started";
    return std::nullopt;
  }
  std::optional<batch::Field> made = field_of(declared.output);
  if (declared.status != StepStatus::done || !made) {
    problem_ = declared.status == StepStatus::done ? "it declares an output that can be no field"
                                                   : text_of(declared.problem);
    say_if_of_memory();
    end();
    return std::nullopt;
  }
  if (temporary_bytes() > 0) folder_problem_ = text_of(declared.problem);
  if (made->name.empty()) made->name = source_.input.name;
  return StepDeclaration{text_of(declared.name), text_of(declared.version), declared.random != 0,
                         std::move(*made)};
}

bool StepProcess::make_areas(Bytes input, Bytes output) {
  if (areas_ && input <= input_bytes_ && output <= output_bytes_) return true;
  areas_ = {};
  input_bytes_ = whole_pages(input);
  output_bytes_ = whole_pages(output);
  if (input == 0) return true;
  areas_file_ =
      protocol::make_memory_file("batchflow-step", input_bytes_ + output_bytes_, problem_);
  if (!areas_file_ || !protocol::seal(areas_file_, false, problem_)) return false;
  areas_file_ = moved_up(std::move(areas_file_));
  areas_ = protocol::Mapping::map_file(areas_file_, input_bytes_ + output_bytes_, true, problem_);
  if (!areas_) return false;
  // Without this, writing to a page for which the machine has no memory would end this process.
  const std::span<std::byte> memory = areas_.memory();
  if (madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
    return true;
  problem_ = fmt::format("no memory for its areas: {}", std::strerror(errno));
  areas_ = {};
  return false;
}

bool StepProcess::spawn() {
  int ends[2], pipe_ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    problem_ = fmt::format("no socket for its process: {}", std::strerror(errno));
    return false;
  }
  socket_ = protocol::Descriptor(ends[0]);
  const protocol::Descriptor other = moved_up(protocol::Descriptor(ends[1]));
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    problem_ = fmt::format("no pipe for its process: {}", std::strerror(errno));
    return false;
  }
  says_ = protocol::Descriptor(pipe_ends[0]);
  const protocol::Descriptor words = moved_up(protocol::Descriptor(pipe_ends[1]));
  const protocol::Descriptor image(fcntl(source_.image.get(), F_DUPFD_CLOEXEC, kAboveWorkers));

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, words.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, words.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&files, other.get(), kStepSocket);
  posix_spawn_file_actions_adddup2(&files, areas_file_ ? areas_file_.get() : image.get(),
                                   kStepAreas);
  posix_spawn_file_actions_adddup2(&files, image.get(), kStepImage);
  const protocol::OwnGroup attributes;

  const std::string program = worker_program(source_.settings);
  std::vector<std::string> words_of{program, source_.file.string()};  // for `ps`
  std::vector<std::string> variables = environment();
  if (const StepInterpreter& python = source_.interpreter; !python.program.empty()) {
    words_of.push_back(python.program);
    const double timeout_s = std::chrono::duration<double>(source_.settings.timeout).count();
    // One thread each: the service has as many of these processes as there are cores.
    for (std::string& one : std::vector<std::string>{
             "PYTHONPATH=" + python.package, "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1",
             "OPENBLAS_NUM_THREADS=1", fmt::format("BATCHFLOW_STEP_TIMEOUT_S={}", timeout_s)})
      variables.push_back(std::move(one));
    if (temporary_bytes() > 0) {
      std::error_code error;  // the process says what is wrong with it
      std::filesystem::create_directory(source_.settings.temporary, error);
      variables.push_back("TMPDIR=" + source_.settings.temporary.string());
    }
  }
  const int error = posix_spawn(&process_, program.c_str(), &files, attributes.get(),
                                pointers(words_of).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return true;
  process_ = -1;
  problem_ = fmt::format("{} cannot be started: {}", program, std::strerror(error));
  return false;
}

std::string StepProcess::setup_message() const {
  StepSetup setup;
  setup.parameters = static_cast<std::uint32_t>(source_.parameters.size());
  setup.parent = getpid();
  setup.folder_mib = static_cast<std::uint32_t>(temporary_bytes() >> 20);
  setup.data_bytes = source_.settings.memory - input_bytes_ - output_bytes_ - kStepStackBytes;
  if (!source_.interpreter.program.empty()) setup.data_bytes += kReservedByInterpreters;
  setup.input_bytes = input_bytes_;
  setup.output_bytes = output_bytes_;
  setup.input = step_array(source_.input);
  std::string message(reinterpret_cast<const char*>(&setup), sizeof setup);
  for (const auto& [name, value] : source_.parameters) {
    message.append(name).push_back('\0');
    message.append(value).push_back('\0');
  }
  BF_CHECK(message.size() <= kStepMessageMost);
  return message;
}

Bytes StepProcess::temporary_bytes() const {
  const StepSettings& settings = source_.settings;
  return source_.interpreter.program.empty() || settings.temporary.empty()
             ? 0
             : std::min(settings.temporary_bytes, settings.memory / 4);
}

// Receives one message of exactly this size, in time.
bool StepProcess::receive(std::span<std::byte> message, Duration within) {
  const auto until = Clock::now() + within;
  late_ = false;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    const bool ending = source_.settings.ending && *source_.settings.ending;
    if (left.count() <= 0 || ending || BF_FAILPOINT("step.late")) {
      late_ = true;
      return false;
    }
    pollfd wanted{socket_.get(), POLLIN, 0};
    if (poll(&wanted, 1, static_cast<int>(std::min(left, kLookAround).count())) <= 0) continue;
    const ssize_t bytes =
        recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    return bytes == static_cast<ssize_t>(message.size());
  }
}

StepResult StepProcess::call(Bytes input, std::span<const std::uint64_t> shape, std::uint64_t seed,
                             Bytes output) {
  BF_CHECK(has_room(input, output) && shape.size() <= BF_STEP_DIMENSIONS_MOST);
  StepCall call;
  call.number = ++calls_;
  call.input_bytes = input;
  std::copy(shape.begin(), shape.end(), call.shape);
  // The output ends where its area ends: a step that writes beyond it meets a page that is not
  // there.
  output_at_ = (output_bytes_ - output) / kStepAlignment * kStepAlignment;
  call.output_at = output_at_;
  call.output_bytes = output;
  call.seed = seed;
  StepReply reply;
  if (BF_FAILPOINT("step.crash")) kill(process_, SIGKILL);
  if (::send(socket_.get(), &call, sizeof call, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof call ||
      !receive(std::as_writable_bytes(std::span(&reply, 1)), source_.settings.timeout) ||
      reply.number != call.number || reply.status > StepStatus::corrupt)
    return lose();
  last_words();
  rows_ = reply.rows;
  if (reply.status == StepStatus::done) return StepResult::done;
  problem_ = text_of(reply.problem);
  if (problem_.empty()) problem_ = "it says no more than that the sample is corrupt";
  say_if_of_memory();
  return StepResult::corrupt;
}

Bytes StepProcess::aligned(Bytes bytes) {
  return (bytes + kStepAlignment - 1) / kStepAlignment * kStepAlignment;
}

bool StepProcess::call_all(Bytes input, std::span<const std::uint64_t> shape,
                           std::span<const std::uint64_t> seeds, Bytes output) {
  const std::size_t samples = seeds.size();
  BF_CHECK(has_room(samples * aligned(input), samples * aligned(output)) &&
           shape.size() <= BF_STEP_DIMENSIONS_MOST);
  std::vector<StepCall> calls(samples);
  std::vector<StepReply> replies(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    calls[i].number = ++calls_;
    calls[i].input_bytes = input;
    std::copy(shape.begin(), shape.end(), calls[i].shape);
    calls[i].output_at = i * aligned(output);
    calls[i].output_bytes = output;
    calls[i].seed = seeds[i];
  }
  if (BF_FAILPOINT("step.crash")) kill(process_, SIGKILL);
  const auto bytes = std::as_bytes(std::span(calls));
  bool answered = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                      static_cast<ssize_t>(bytes.size()) &&
                  receive(std::as_writable_bytes(std::span(replies)), source_.settings.timeout);
  problems_.assign(samples, {});
  for (std::size_t i = 0; answered && i < samples; ++i) {
    answered = replies[i].number == calls[i].number && replies[i].status <= StepStatus::corrupt;
    if (replies[i].status == StepStatus::done) continue;
    problem_ = text_of(replies[i].problem);
    if (problem_.empty()) problem_ = "it says no more than that the sample is corrupt";
    say_if_of_memory();
    problems_[i] = problem_;
  }
  if (answered)
    last_words();
  else
    lose();
  return answered;
}

StepResult StepProcess::lose() {
  // A process that has ended by itself keeps its own end, which was settled before its socket
  // closed.
  kill(process_, SIGKILL);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  const Duration within = calls_ > 0 ? source_.settings.timeout : source_.settings.start_timeout;
  problem_ =
      late_ ? fmt::format("took more than {:g} s", std::chrono::duration<double>(within).count())
            : ending_of(status);
  if (const std::string words = last_words(); !words.empty())
    problem_ += fmt::format(", and last wrote '{}'", words);
  say_if_of_memory();
  end();
  return late_ ? StepResult::late : StepResult::crashed;
}

void StepProcess::say_if_of_memory() {
  if (temporary_bytes() > 0 && problem_.find("No space left on device") != std::string::npos) {
    problem_ += fmt::format(
        " (its temporary folder may have {} MiB, and what is not removed stays in it; give it "
        "more: it has a quarter of {})",
        temporary_bytes() >> 20, source_.memory_setting());
    return;
  }
  // Messages of Python, the C++ library, the loader of libraries, OpenBLAS, and PyTorch.
  for (const char* words : {"MemoryError", "bad_alloc", "start new thread", "failed to map segment",
                            "Memory allocation", "allocate memory"})
    if (problem_.find(words) != std::string::npos) {
      problem_ += fmt::format(" (its process may take {} MiB; give it more: {})",
                              source_.settings.memory >> 20, source_.memory_setting());
      return;
    }
}

// What the process writes is read while it runs, or it would have to wait. The last line is kept:
// it is what an assertion or the C++ library says before the end.
std::string StepProcess::last_words() {
  std::array<char, 4096> text;
  for (ssize_t bytes; says_ && (bytes = read(says_.get(), text.data(), text.size())) > 0;) {
    said_.append(text.data(), static_cast<std::size_t>(bytes));
    if (said_.size() > 2 * text.size()) said_.erase(0, said_.size() - text.size());
    if (is_running()) break;  // it may write for ever
  }
  const std::size_t last = said_.find_last_not_of('\n');
  if (last == std::string::npos) return {};
  const std::size_t before = said_.find_last_of('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  std::string line = said_.substr(first, std::min(last + 1 - first, kSaidMost));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

void StepProcess::end() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
  }
  socket_.reset();
  says_.reset();
  said_.clear();
  calls_ = 0;
}

}  // namespace batchflow::step
