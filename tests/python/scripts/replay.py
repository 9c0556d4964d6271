"""In the shape of deep Q learning: an IterableDataset draws from a buffer of what was played, which
grows while the training goes on."""

import json
import random
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import IterableDataset


class RLDataset(IterableDataset):
    def __init__(self, buffer, sample_size):
        self.buffer, self.sample_size = buffer, sample_size

    def __iter__(self):
        for state, action, reward, done, new_state in random.sample(self.buffer, self.sample_size):
            yield state, action, reward, done, new_state


def play(buffer, steps, net):
    """A walk on ten fields; the last one is the goal."""
    for _ in range(steps):
        at = len(buffer) % 9
        state = torch.eye(10)[at]
        action = int(net(state).argmax()) if random.random() > 0.5 else random.randint(0, 1)
        to = min(9, max(0, at + 2 * action - 1))
        buffer.append((state, action, float(to == 9), to == 9, torch.eye(10)[to]))


def main():
    torch.manual_seed(0)
    random.seed(0)
    net, buffer = nn.Linear(10, 2), deque(maxlen=200)
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    play(buffer, 60, net)
    dataloader = DataLoader(dataset=RLDataset(buffer, 40), batch_size=16)
    for epoch in range(3):
        seen = []
        for states, actions, rewards, dones, next_states in dataloader:
            values = net(states).gather(1, actions.unsqueeze(-1)).squeeze(-1)
            with torch.no_grad():
                wanted = rewards + 0.9 * net(next_states).max(1)[0] * ~dones
            loss = nn.functional.mse_loss(values, wanted.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            play(buffer, 5, net)
            seen.append(list(zip(states.argmax(1).tolist(), actions.tolist())))
        print(json.dumps({"train": seen, "length": len(seen), "loss": loss.item()}))
    print(json.dumps({"loaders": [type(dataloader).__name__]}))


if __name__ == "__main__":
    main()
