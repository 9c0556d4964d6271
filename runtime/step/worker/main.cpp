// batchflow-step-worker: carries out one step that is a plugin, for one thread of the service. The
// service starts and ends it; runtime/step/wire.h has their messages.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "programs/confine/confine.h"
#include "programs/confine/own_folder.h"
#include "runtime/step/wire.h"

namespace {

using namespace batchflow;
using namespace batchflow::step;

constexpr std::size_t kPage = 4096;
constexpr int kImpossible = 3;

template <std::size_t size>
void copy_text(char (&to)[size], const char* from) {
  std::snprintf(to, size, "%s", from ? from : "");
}

struct Areas {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// The areas lie between pages that nothing may touch, so that a write beyond them is stopped there.
bool map_areas(const StepSetup& setup, Areas& areas) {
  const std::size_t all = setup.input_bytes + setup.output_bytes + 3 * kPage;
  void* const reserved =
      mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return false;
  auto* const input = static_cast<std::byte*>(reserved) + kPage;
  auto* const output = input + setup.input_bytes + kPage;
  if (mmap(input, setup.input_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, kStepAreas, 0) ==
          MAP_FAILED ||
      mmap(output, setup.output_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, kStepAreas,
           static_cast<off_t>(setup.input_bytes)) == MAP_FAILED)
    return false;
  areas = {input, output};
  return true;
}

// Null: `problem` says why it is no plugin for this program.
const bf_step_plugin* load_plugin(std::string& problem) {
  const std::string place = "/proc/self/fd/" + std::to_string(kStepImage);
  void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = dlerror();
    // Its name here means nothing to people.
    for (std::size_t at; (at = problem.find(place)) != std::string::npos;)
      problem.replace(at, place.size(), "it");
    problem = "it cannot be loaded (" + problem + "); build it as `batchflowctl step new` says";
    return nullptr;
  }
  const auto* entry = static_cast<const bf_step_plugin*>(dlsym(library, "bf_step_entry"));
  if (!entry) {
    problem =
        "it is a library, and no step: it exports no bf_step_entry; write one with "
        "`batchflowctl step new NAME`";
  } else if (entry->abi_version != BF_STEP_ABI_VERSION || entry->abi_hash != BF_STEP_ABI_HASH ||
             entry->struct_size < sizeof *entry) {
    problem = "it was built for version " + std::to_string(entry->abi_version) +
              " of the steps' interface, and this service has version " +
              std::to_string(BF_STEP_ABI_VERSION) +
              (entry->abi_version == BF_STEP_ABI_VERSION ? " with another header" : "") +
              "; build it again with this service's batchflow_step.h";
  } else if (!entry->name || !entry->version || !entry->create || !entry->run ||
             std::strlen(entry->name) > BF_STEP_NAME_MOST || entry->random > 1) {
    problem = "its bf_step_entry has no name, version, create or run";
  } else {
    return entry;
  }
  return nullptr;
}

// Receives the setup, which comes first. `flags` may leave it in the socket, to be read again.
bool receive_setup(std::span<std::byte> message, int flags, StepSetup& setup, ssize_t& bytes) {
  bytes = recv(kStepSocket, message.data(), message.size(), flags);
  if (bytes < static_cast<ssize_t>(sizeof setup)) return false;
  std::memcpy(&setup, message.data(), sizeof setup);
  return setup.protocol == kStepProtocol;
}

confine::Limits limits_of(const StepSetup& setup) {
  return {setup.parent, setup.data_bytes, kStepStackBytes, kStepImage};
}

// Gives this process its temporary folder. Where that is refused, the environment says why, and the
// process writes no files, as before.
void make_temporary_folder(const StepSetup& setup, confine::Limits& limits) {
  const char* const place = std::getenv("TMPDIR");
  if (!place || setup.folder_mib == 0) return;
  const std::uint64_t bytes = std::uint64_t{setup.folder_mib} << 20;
  std::string problem;
  if (!confine::make_own_folder(place, bytes, problem)) {
    setenv("BATCHFLOW_STEP_NO_FOLDER", problem.c_str(), 1);
    unsetenv("TMPDIR");
    return;
  }
  // It was opened before mounts were read-only: the mode of the machine's device could be changed.
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) close(STDIN_FILENO);
  if (null > STDIN_FILENO) close(null);
  // Both are memory of the machine.
  limits.data_bytes -= std::min(bytes, limits.data_bytes - 1);  // 0 would be no limit
  limits.file_bytes = 2 * bytes;  // the folder is full before, which says more
  limits.has_own_folder = true;
  for (const char* name : {"TMP", "TEMP"}) setenv(name, place, 1);
}

// Becomes the interpreter, which then does what Worker does for a library. Returns only if it
// cannot.
void become(const char* interpreter, const char* shown) {
  alignas(StepSetup) static std::byte message[kStepMessageMost];
  StepSetup setup;
  ssize_t bytes = 0;
  if (!receive_setup(message, MSG_PEEK, setup, bytes)) return;
  StepDeclared declared;
  std::string problem;
  confine::Limits limits = limits_of(setup);
  make_temporary_folder(setup, limits);
  if (confine::confine(confine::Confined::program, limits, problem)) {
    // With -m, the package would be loaded whole before it; as a script, Python opens it by a call
    // that is forbidden.
    constexpr const char* kRun =
        "import sys\n"
        "__file__ = sys.argv[1] + '/batchflow/step_worker.py'\n"
        "exec(compile(open(__file__, 'rb').read(), __file__, 'exec'))";
    const char* const package = std::getenv("PYTHONPATH");
    const char* const words[] = {interpreter, "-c", kRun, package ? package : "", shown, nullptr};
    execv(interpreter, const_cast<char* const*>(words));
    problem = std::string(interpreter) + " cannot be started: " + std::strerror(errno);
  }
  declared.status = StepStatus::corrupt;
  copy_text(declared.problem, problem.c_str());
  write(kStepSocket, &declared, sizeof declared);
}

// `--confined PARENT MEMORY LAST_FILE FILE_BYTES PROGRAM ARGUMENT...`: becomes the program, which
// writes to no file but those that it is given open. Returns only if it cannot.
void become_confined(char** arguments) {
  confine::Limits limits;
  limits.parent = std::atoi(arguments[0]);
  limits.data_bytes = std::strtoull(arguments[1], nullptr, 10);
  limits.last_file = std::atoi(arguments[2]);
  limits.file_bytes = std::strtoull(arguments[3], nullptr, 10);
  std::string problem;
  if (confine::confine(confine::Confined::program, limits, problem)) {
    execv(arguments[4], arguments + 4);
    problem = std::string(arguments[4]) + " cannot be started: " + std::strerror(errno);
  }
  std::fprintf(stderr, "%s\n", problem.c_str());
}

class Worker {
 public:
  // Reads what the service wants, and answers it.
  bool begin() {
    alignas(StepSetup) static std::byte message[kStepMessageMost];
    ssize_t bytes = 0;
    if (!receive_setup(message, 0, setup_, bytes)) return false;
    StepDeclared declared;
    std::string problem;
    const char* const texts = reinterpret_cast<const char*>(message) + sizeof setup_;
    const bool begun = confine::confine(confine::Confined::library, limits_of(setup_), problem) &&
                       create(texts, bytes - sizeof setup_, declared, problem);
    if (!begun) {
      declared.status = StepStatus::corrupt;
      copy_text(declared.problem, problem.c_str());
    }
    return write(kStepSocket, &declared, sizeof declared) == sizeof declared && begun &&
           setup_.input_bytes > 0;
  }

  // Serves one sample. False: the service has ended the connection.
  bool serve() {
    StepCall call;
    if (read(kStepSocket, &call, sizeof call) != sizeof call) return false;
    StepReply reply;
    reply.number = call.number;
    bf_step_sample sample{};
    sample.struct_size = sizeof sample;
    sample.input = areas_.input;
    sample.input_bytes = call.input_bytes;
    sample.input_shape = call.shape;
    sample.output = areas_.output + call.output_at;
    sample.output_bytes = call.output_bytes;
    sample.seed = call.seed;
    sample.problem = reply.problem;
    if (plugin_->run(step_, &sample) != BF_STEP_DONE) reply.status = StepStatus::corrupt;
    reply.rows = sample.output_rows;
    return write(kStepSocket, &reply, sizeof reply) == sizeof reply;
  }

 private:
  bool create(const char* texts, std::size_t bytes, StepDeclared& declared, std::string& problem) {
    if (setup_.input_bytes > 0 && !map_areas(setup_, areas_)) {
      problem = std::string("its areas cannot be mapped: ") + std::strerror(errno);
      return false;
    }
    close(kStepAreas);
    plugin_ = load_plugin(problem);
    close(kStepImage);
    if (!plugin_) return false;
    std::vector<bf_step_parameter> parameters(setup_.parameters);
    const char* const end = texts + bytes;
    const auto text = [&texts, end] {
      const char* const one = texts;
      texts = std::min(end, std::find(texts, end, '\0') + 1);
      return one;
    };
    for (bf_step_parameter& one : parameters) {
      one.name = text();
      one.value = text();
    }
    bf_step_setup setup{};
    setup.struct_size = sizeof setup;
    setup.input = setup_.input;
    setup.parameters = setup_.parameters;
    setup.parameter = parameters.data();
    setup.problem = declared.problem;
    copy_text(declared.name, plugin_->name);
    copy_text(declared.version, plugin_->version);
    declared.random = plugin_->random;
    if (plugin_->create(&setup, &declared.output, &step_) == BF_STEP_DONE) return true;
    problem = declared.problem;
    return false;
  }

  StepSetup setup_;
  Areas areas_;
  const bf_step_plugin* plugin_ = nullptr;
  void* step_ = nullptr;
};

}  // namespace

// With an interpreter as the second argument (the first is what `ps` shows), it carries out a
// function in Python.
int main(int argc, char** argv) {
  if (argc > 6 && std::strcmp(argv[1], "--confined") == 0) {
    become_confined(argv + 2);
    _exit(kImpossible);
  }
  if (argc > 2) {
    become(argv[2], argv[1]);
    _exit(kImpossible);
  }
  Worker worker;
  if (!worker.begin()) _exit(kImpossible);
  while (worker.serve()) {
  }
  // What the plugin would do at exit does not matter, and may hang.
  _exit(0);
}
