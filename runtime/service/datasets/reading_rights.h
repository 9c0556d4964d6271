// Whether a job's user may read a dataset: the job shows it by files and folders that it has
// opened.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/protocol/descriptor.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/jobs/peer.h"

namespace batchflow::service {

// Whether the user who shows a file or folder has opened it for reading.
bool shows(const protocol::Descriptor& one);
// Whether the user is the service's own user, or root.
bool is_trusted(const Peer& connection);
// A user who has opened the dataset's folder, or its only file, may read the dataset. A user on
// another node cannot show a feed's folder: its permissions say then whether the user may.
bool may_read(Peer& connection, const ServedDataset& dataset,
              const std::vector<protocol::Descriptor>& descriptors);
// What the client shows of this path; from here on that is the dataset. Null: it shows nothing.
// Throws DatasetError.
std::shared_ptr<const sources::DataRoot> shown_root(
    const std::filesystem::path& path, const std::vector<protocol::Descriptor>& descriptors);
// Refuses what the user has not shown the right to read. A client opens the folder of a dataset
// that its job has named; a file, only if the job names the file.
void refuse_reading(Peer& connection, const std::filesystem::path& root, bool is_folder);
// The same for a URL, for which no user can show a right.
void refuse_url(Peer& connection, const std::filesystem::path& url);
// Refuses a folder that has something which other users cannot read; says nothing else of it.
void refuse_closed(Peer& connection, const std::filesystem::path& root, const std::string& closed);

}  // namespace batchflow::service
