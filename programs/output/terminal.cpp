#include "programs/output/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>

namespace batchflow::output {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  interrupted.store(true, std::memory_order_relaxed);
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// A byte that begins no character of UTF-8 stands for itself. REQUIRES: text is not empty
Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  if (bytes == 1 || text.size() < bytes) return {first};
  std::uint32_t code = first & (0xffu >> (bytes + 1));
  for (const char c : text.substr(1, bytes - 1)) {
    if (!continues_character(c)) return {first};
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  }
  return {code, bytes};
}

// Whether the character changes where the text around it appears: control characters, marks of
// direction, ends of lines and paragraphs.
bool is_moving(std::uint32_t code) {
  const auto between = [code](std::uint32_t first, std::uint32_t last) {
    return code >= first && code <= last;
  };
  return code < ' ' || between(0x7f, 0x9f) || code == 0x61c || between(0x200e, 0x200f) ||
         between(0x2028, 0x202e) || between(0x2066, 0x2069);
}

// The beginning of `text` in at most `columns` columns. A character takes no more columns than it
// has bytes, and is not cut.
std::string shortened(const std::string& text, std::size_t columns) {
  if (text.size() <= columns) return text;
  constexpr std::string_view kMore = "..";
  std::size_t end = columns - std::min(columns, kMore.size());
  while (end > 0 && continues_character(text[end])) --end;
  return text.substr(0, end) + std::string(kMore.substr(0, columns));
}

std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// One column stays free, because some terminals wrap in the last one.
std::string progress_line(const std::string& label, double done, std::size_t columns) {
  constexpr std::size_t kBar = 30;
  std::size_t left = columns - 1;
  const auto take = [&](std::string text) {
    if (text.size() > left) return std::string();
    left -= text.size();
    return text;
  };
  if (done < 0) {
    const std::string dots = take(" ...");
    return shortened(label, left) + dots;
  }
  const double shown = std::clamp(done, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(shown * kBar);
  const std::string percent = take(fmt::format(" {:3.0f}%", 100 * shown));
  // A long label leaves no room for the bar.
  const bool room = label.size() + kBar + 3 <= left;
  const std::string bar =
      room ? take(fmt::format(" [{}{}]", std::string(full, '#'), std::string(kBar - full, '.')))
           : "";
  return shortened(label, left) + bar + percent;
}

}  // namespace

void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // Opened for the other direction, so that its use is an error; it takes the lowest free number,
    // which is this one.
    open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction inherited {};
    sigaction(signal, nullptr, &inherited);
    // A signal that nohup or a shell's background job ignores stays ignored.
    if (inherited.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool was_interrupted() {
  return interrupted.load(std::memory_order_relaxed);
}

void check_interrupted() {
  if (was_interrupted()) throw Interrupted();
}

void die_of_broken_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!is_moving(character.code)) {
      result += text.substr(0, character.bytes);
    } else if (character.code < 0x100) {
      result += fmt::format("\\x{:02x}", character.code);
    } else {
      result += fmt::format("\\u{:04x}", character.code);
    }
    text.remove_prefix(character.bytes);
  }
  return result;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

void say(std::string_view line) {
  const std::string text = printable(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

ProgressBar::ProgressBar(std::string_view label)
    : label_(printable(label)), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (visible_ && painted_ != std::chrono::steady_clock::time_point{}) {
    std::fputs("\r\033[K", stderr);
  }
}

void ProgressBar::show(double done, std::string_view beside) {
  constexpr auto kBetween = std::chrono::milliseconds(100);
  if (!visible_) return;
  const std::unique_lock lock(painting_, std::try_to_lock);
  if (!lock) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - painted_ < kBetween) return;
  painted_ = now;
  const std::string label = beside.empty() ? label_ : label_ + ", " + std::string(beside);
  std::fputs(("\r" + progress_line(label, done, terminal_columns()) + "\033[K").c_str(), stderr);
}

}  // namespace batchflow::output
