#include "runtime/service/datasets/reading_rights.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fmt/format.h"
#include "runtime/protocol/messages.h"

namespace batchflow::service {

bool shows(const protocol::Descriptor& one) {
  const int flags = fcntl(one.get(), F_GETFL);
  return flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_WRONLY;
}

bool is_trusted(const Peer& connection) {
  return connection.user() == geteuid() || connection.user() == 0;
}

namespace {

// Whether the folder's permissions, and those above it, let the user read it as its owner or as
// anybody.
bool is_open_to(uid_t user, const std::filesystem::path& folder) {
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  for (std::filesystem::path at = whole;; at = at.parent_path()) {
    struct stat status {};
    if (stat(at.c_str(), &status) != 0) return false;
    mode_t needed = status.st_uid == user ? S_IXUSR : S_IXOTH;
    if (at == whole) needed |= status.st_uid == user ? S_IRUSR : S_IROTH;
    if ((status.st_mode & needed) != needed) return false;
    if (at == at.parent_path()) return true;
  }
}

}  // namespace

bool may_read(Peer& connection, const ServedDataset& dataset,
              const std::vector<protocol::Descriptor>& descriptors) {
  if (const AgentEnd* const agent = connection.agent(); agent && agent->may_read(dataset.id))
    return true;
  // The folder of a feed is on this node alone, and a job elsewhere cannot show it.
  if (connection.agent() && dataset.is_feed && is_open_to(connection.user(), dataset.root))
    return true;
  const sources::DataRoot& root = *dataset.opened;
  if (root.is_of_store()) return is_trusted(connection) || dataset.asked.everyone;
  return is_trusted(connection) ||
         std::any_of(descriptors.begin(), descriptors.end(), [&](const protocol::Descriptor& one) {
           return shows(one) && sources::is_same_file(one.get(), root.shown());
         });
}

std::shared_ptr<const sources::DataRoot> shown_root(
    const std::filesystem::path& path, const std::vector<protocol::Descriptor>& descriptors) {
  for (const protocol::Descriptor& one : descriptors) {
    if (!shows(one)) continue;
    if (auto root = sources::open_shown(path, one.get())) return root;
  }
  return nullptr;
}

void refuse_reading(Peer& connection, const std::filesystem::path& root, bool is_folder) {
  connection.send(protocol::encode(protocol::Refused{
                      "not_allowed",
                      fmt::format("user {} has not shown the right to read {}; give that user read "
                                  "access, and name it by this path",
                                  connection.user(), root.string()),
                      is_folder ? root.string() : ""}),
                  {});
  connection.end();
}

void refuse_url(Peer& connection, const std::filesystem::path& url) {
  refuse(connection, "not_allowed",
         fmt::format("{} is read with the keys of the service, which user {} has not shown to "
                     "have; start a service as that user, or have this one serve it to all "
                     "(--dataset NAME={},everyone)",
                     url.string(), connection.user(), url.string()));
}

void refuse_closed(Peer& connection, const std::filesystem::path& root, const std::string& closed) {
  refuse(connection, "not_allowed",
         fmt::format("{}: other users cannot read {}; make everything in this folder readable by "
                     "all, or have the service serve it by a name (--dataset NAME={})",
                     root.string(), closed, root.string()));
}

}  // namespace batchflow::service
