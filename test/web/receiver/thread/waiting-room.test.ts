import { describe, expect, it } from 'vitest';
import { createWaitingRoom } from '../../../../src/web/receiver/thread/waiting-room.ts';

describe('the waiting room of an inbox', () => {
  it('refuses what goes over its rows or its bytes, and counts what has left', () => {
    const room = createWaitingRoom(() => ({ rows: 2, bytes: 100 }));
    const first = room.enter(60);
    expect(room.enter(41)).toBeNull();
    expect(room.enter(40)).not.toBeNull();
    expect(room.enter(0)).toBeNull();
    first?.leaves();
    expect(room.enter(60)).not.toBeNull();
  });

  it('believes a count, but for what came in while it was made', () => {
    const room = createWaitingRoom(() => ({ rows: 2, bytes: 100 }));
    room.enter(1)?.stays();
    const counted = room.counting();
    room.enter(1)?.stays();
    expect(room.enter(1)).toBeNull();
    // The first one was settled meanwhile; the second may not have been seen.
    counted({ rows: 0, bytes: 0 });
    expect(room.enter(1)).not.toBeNull();
    expect(room.enter(1)).toBeNull();
  });

  it('keeps a delivery on its way in the next count, and ignores a count that a later one has overtaken', () => {
    const room = createWaitingRoom(() => ({ rows: 1, bytes: 100 }));
    room.enter(1);
    const [older, newer] = [room.counting(), room.counting()];
    older({ rows: 0, bytes: 0 });
    newer({ rows: 0, bytes: 0 });
    expect(room.enter(1)).toBeNull();
  });
});
