// The pool of threads that call pread.
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <unordered_map>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/storage/open_beneath.h"
#include "runtime/storage/reader.h"

namespace batchflow::storage {
namespace {

constexpr int kTries = 16;              // after EINTR and EAGAIN
constexpr std::size_t kOpenFiles = 64;  // large files that stay open

struct File {
  File(int f, bool d) : fd(f), direct(d) {}
  ~File() { ::close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int fd;
  const bool direct;
};
using FilePointer = std::shared_ptr<const File>;

struct OpenedFile {
  FilePointer file;
  int error = 0;
};

OpenedFile open_file(const ReadPiece& piece, bool direct) {
  int fd = opened_as(0);
  if (fd < 0) return {.file = nullptr, .error = -fd};
  Opened opened = open_beneath(piece.root, piece.path, direct, piece.guard == nullptr);
  if (opened.fd < 0 && opened.error == EINVAL && direct) return open_file(piece, false);
  if (opened.fd < 0) return {.file = nullptr, .error = opened.error};
  auto file = std::make_shared<const File>(opened.fd, direct);
  if (const int error = admit(file->fd, direct, piece.guard); error != 0)
    return {.file = {}, .error = error};
  return {.file = std::move(file), .error = 0};
}

// Large files stay open; the file that was not used for longest is closed first.
class OpenFiles {
 public:
  OpenedFile get(const ReadPiece& piece, bool direct) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = files_.find(piece.file);
      if (found != files_.end()) {
        found->second.used = ++now_;
        return {.file = found->second.file, .error = 0};
      }
    }
    OpenedFile opened = open_file(piece, direct);  // two threads may open it; one file is kept
    if (opened.file == nullptr) return opened;
    FilePointer closed_last;  // closed after the lock is released, since closing may take long
    const std::lock_guard lock(mutex_);
    if (files_.size() >= kOpenFiles) {
      const auto oldest = std::min_element(
          files_.begin(), files_.end(),
          [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
      closed_last = std::move(oldest->second.file);
      files_.erase(oldest);
    }
    files_.insert_or_assign(piece.file, Entry{opened.file, ++now_});
    return opened;
  }

 private:
  struct Entry {
    FilePointer file;
    std::uint64_t used = 0;
  };
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Entry> files_;
  std::uint64_t now_ = 0;
};

// Reads or writes all of the piece, and answers errno. EINVAL: the file cannot be read with
// O_DIRECT.
int move_all(int fd, Progress& progress) {
  int tries = kTries;
  for (;;) {
    const Progress::Next next = progress.next();
    const auto offset = static_cast<off_t>(next.offset);
    const ssize_t moved = progress.piece().write ? ::pwrite(fd, next.to, next.length, offset)
                                                 : ::pread(fd, next.to, next.length, offset);
    const int answer = moved_as(progress.piece(), moved < 0 ? -errno : static_cast<int>(moved));
    if (answer >= 0) {
      if (progress.advance(static_cast<Bytes>(answer))) return 0;
    } else if ((answer != -EINTR && answer != -EAGAIN) || --tries == 0) {
      return -answer;
    }
  }
}

class PreadPool final : public Reader {
 public:
  PreadPool(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
            std::shared_ptr<ResultQueue> done_queue)
      : options_(options), staging_(std::move(staging)), done_queue_(std::move(done_queue)) {}

  void start(const std::shared_ptr<PreadPool>& self) {
    for (unsigned i = 0; i < options_.threads; ++i) threads_.start([self] { self->work(); });
  }

  void submit(std::span<const ReadPiece> pieces) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.insert(queue_.end(), pieces.begin(), pieces.end());
    }
    if (pieces.size() == 1) {
      filled_.notify_one();
    } else {
      filled_.notify_all();
    }
  }
  void end() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    filled_.notify_all();
    threads_.end_within(options_.end_within);
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      filled_.wait(lock, [&] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Progress progress(queue_.front());
      queue_.pop_front();
      const bool begin = !ending_;
      lock.unlock();
      const ReadResult result = progress.result(begin ? read(progress) : ECANCELED);
      done_queue_->add({&result, 1});
      lock.lock();
    }
  }

  bool is_ending() {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  int read(Progress& progress) {
    const ReadPiece& piece = progress.piece();
    if (piece.fd >= 0) return move_all(piece.fd, progress);
    bool direct = options_.direct && !piece.cached && !BF_FAILPOINT("storage.direct.refused");
    const OpenedFile opened =
        piece.whole_file ? open_file(piece, direct) : files_.get(piece, direct);
    if (opened.file == nullptr) return opened.error;
    const int error = move_all(opened.file->fd, progress);
    if (error != EINVAL || !opened.file->direct) return error;
    // When the engine ends, the path may be gone.
    if (is_ending()) return ECANCELED;
    const OpenedFile buffered = open_file(piece, false);
    return buffered.file == nullptr ? buffered.error : move_all(buffered.file->fd, progress);
  }

  const ReadEngineOptions options_;
  const std::shared_ptr<Staging> staging_;  // threads that are left behind write to it
  const std::shared_ptr<ResultQueue> done_queue_;
  OpenFiles files_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<ReadPiece> queue_;
  bool ending_ = false;
  Threads threads_;
};

}  // namespace

Started start_pool(const ReadEngineOptions& options, std::shared_ptr<Staging> staging,
                   std::shared_ptr<ResultQueue> done_queue) {
  auto pool = std::make_shared<PreadPool>(options, std::move(staging), std::move(done_queue));
  pool->start(pool);
  return {.reader = pool, .description = fmt::format("pread: {} threads", options.threads)};
}

}  // namespace batchflow::storage
