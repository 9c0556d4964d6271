#include "runtime/sources/unpack_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "runtime/protocol/own_group.h"

namespace batchflow::sources {
namespace {

constexpr int kFirstFile = 10;     // descriptors of the process
constexpr int kAboveFiles = 1000;  // of this process, meanwhile
constexpr std::size_t kSaidMost = 8192;

// What the process does. A batch of rows has about 32 MiB, however large a row group is.
constexpr const char* kScript = R"(
import os, resource, sys
kind, count, columns = sys.argv[1], int(sys.argv[2]), sys.argv[3:] or None
try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    sys.exit(f"{sys.executable} has no pyarrow ({missing}); install it (pip install pyarrow), or "
             "name another Python by BATCHFLOW_PYTHON")
AT_ONCE = 32 << 20

def batches(source):
    if kind == "arrow":
        try:
            reader = pa.ipc.open_file(source)
            return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            source.seek(0)
            reader = pa.ipc.open_stream(source)
            return reader.schema, reader
    file = pq.ParquetFile(source)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    rows = max(1, min(1 << 20, AT_ONCE * file.metadata.num_rows // max(size, 1)))
    found = file.iter_batches(batch_size=rows, columns=columns)
    first = next(found, None)
    schema = first.schema if first is not None else file.schema_arrow
    schema = schema.with_metadata(file.schema_arrow.metadata)
    def all_of():
        if first is not None:
            yield first
            yield from found
    return schema, all_of()

def mapped(i):
    try:
        return pa.memory_map(f"/proc/self/fd/{10 + 2 * i}")
    except Exception:
        print(f"file {i}", flush=True)
        raise

sources = [mapped(i) for i in range(count)]
# Whatever a file makes pyarrow do, no other file is opened from here on.
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
for i, source in enumerate(sources):
    print(f"file {i}", flush=True)
    with source, open(11 + 2 * i, "wb", closefd=False) as out:
        schema, found = batches(source)
        with pa.ipc.new_stream(out, schema) as writer:
            for batch in found:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
print("done", flush=True)
os._exit(0)
)";

// A script that only finds the interpreter would have to start it, which it may not.
bool is_program(const std::string& file) {
  std::array<char, 4> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) ==
         "\x7f"
         "ELF";
}

std::string python() {
  if (const char* value = std::getenv("BATCHFLOW_PYTHON"); value && *value) return value;
  const char* const path = std::getenv("PATH");
  std::string rest = path && *path ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string file = rest.substr(0, colon) + "/python3";
    if (access(file.c_str(), X_OK) == 0 && is_program(file)) return file;
    rest.erase(0, std::min(colon + 1, rest.size()));
  }
  return "/usr/bin/python3";
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

UnpackProcess::~UnpackProcess() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void UnpackProcess::begin(std::string_view kind, std::vector<File> files,
                          const std::vector<std::string>& columns) {
  files_ = std::move(files);
  said_.clear();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw DatasetError(fmt::format("no pipe to unpack by: {}", std::strerror(errno)));
  says_ = protocol::Descriptor(ends[0]);
  const protocol::Descriptor words(ends[1]);
  std::vector<protocol::Descriptor> moved;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, words.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, words.get(), STDERR_FILENO);
  int next = kFirstFile;
  for (const File& file : files_) {
    for (const int one : {file.from.get(), file.to.get()}) {
      moved.emplace_back(fcntl(one, F_DUPFD_CLOEXEC, kAboveFiles));
      posix_spawn_file_actions_adddup2(&actions, moved.back().get(), next++);
    }
  }
  std::error_code error;
  const std::filesystem::path programs =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::string program = programs / "batchflow-step-worker";
  const std::string splitter = programs / "batchflow-video-split";
  const bool is_video = kind == "video";
  if (is_video && access(splitter.c_str(), X_OK) != 0)
    throw DatasetError(
        "this build reads no video: install libavformat-dev libavcodec-dev libswscale-dev "
        "libavutil-dev and build again");
  constexpr std::uint64_t kMemory = std::uint64_t{8} << 30, kFileMost = std::uint64_t{1} << 42;
  std::vector<std::string> arguments{program,
                                     "--confined",
                                     std::to_string(getpid()),
                                     std::to_string(kMemory),
                                     std::to_string(next - 1),
                                     std::to_string(kFileMost)};
  const std::string count = std::to_string(files_.size());
  if (is_video) {
    arguments.insert(arguments.end(), {splitter, count});
  } else {
    arguments.insert(arguments.end(), {python(), "-c", kScript, std::string(kind), count});
    arguments.insert(arguments.end(), columns.begin(), columns.end());
  }
  std::vector<std::string> variables{"PYTHONDONTWRITEBYTECODE=1"};
  for (const char* name : {"PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "HOME", "PYTHONPATH"})
    if (const char* value = std::getenv(name))
      variables.push_back(fmt::format("{}={}", name, value));
  const protocol::OwnGroup attributes;
  const int failed = posix_spawn(&process_, program.c_str(), &actions, attributes.get(),
                                 pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return;
  process_ = -1;
  throw DatasetError(fmt::format("{} cannot be started: {}", program, std::strerror(failed)));
}

bool UnpackProcess::has_ended() {
  const std::string line = last_words();
  int status = 0;
  const int ended = waitpid(process_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  process_ = -1;
  const std::string all = last_words();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  std::size_t number = 0;
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (said_.find(fmt::format("file {}\n", i)) != std::string::npos) number = i;
  throw DatasetError(fmt::format(
      "{}: it cannot be unpacked: {}{}", files_[number].path, all.empty() ? line : all,
      WIFSIGNALED(status) ? fmt::format(" (ended by signal {})", WTERMSIG(status)) : ""));
}

// The last line that the process wrote, in characters that can be shown.
std::string UnpackProcess::last_words() {
  std::array<char, 4096> text;
  for (ssize_t bytes; (bytes = read(says_.get(), text.data(), text.size())) > 0;) {
    said_.append(text.data(), static_cast<std::size_t>(bytes));
    if (said_.size() > kSaidMost) said_.erase(0, said_.size() - kSaidMost);
    if (said_.size() > kSaidMost / 2 && is_running()) break;  // it may write for ever
  }
  const std::size_t last = said_.find_last_not_of('\n');
  if (last == std::string::npos) return {};
  const std::size_t before = said_.find_last_of('\n', last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  std::string line = said_.substr(first, std::min<std::size_t>(last + 1 - first, 500));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

}  // namespace batchflow::sources
