// The doubles fit where the real things go, and are what testing.d.ts says they are.

import { createProjectLocks } from "../../../../static/client/project-lock.js";
import * as declared from "../../../../static/client/testing.js";
import { EventProbe } from "../../../../static/client/testing/event_probe.js";
import { createFakeServer } from "../../../../static/client/testing/fake_server.js";
import { FakeClock } from "../../../../static/client/testing/fake_clock.js";
import { InMemoryOpfsFile } from "../../../../static/client/testing/in_memory_opfs_file.js";
import { MockNavigatorLocks } from "../../../../static/client/testing/mock_navigator_locks.js";

export const asDeclared: typeof declared = { EventProbe, FakeClock, createFakeServer, InMemoryOpfsFile, MockNavigatorLocks };

const clock = new declared.FakeClock();
const file = new declared.InMemoryOpfsFile({ clock });
const webLocks = new declared.MockNavigatorLocks();
const locks = createProjectLocks({ navigator: { locks: webLocks }, clock, directory: file.root });
const probe = new declared.EventProbe(locks);
export const delays: number[] = probe.of("lock:waiting").map(({ delayMs }) => delayMs);

webLocks.queue.push("denied", new Error("mine"));
export const answered: Promise<number> = webLocks.request("name", { ifAvailable: true }, (lock) => (lock ? 1 : 0));
file.fail("removeEntry", { times: 1 });
// @ts-expect-error there is no such step
file.fail("rename");
