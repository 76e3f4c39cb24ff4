// Doubles for testing an editor that uses doclock in the browser, without one. Each behaves like the thing it stands for.

export { EventProbe } from "./testing/event_probe.js";
export { createFakeServer } from "./testing/fake_server.js";
export { FakeClock } from "./testing/fake_clock.js";
export { InMemoryOpfsFile } from "./testing/in_memory_opfs_file.js";
export { MockNavigatorLocks } from "./testing/mock_navigator_locks.js";
