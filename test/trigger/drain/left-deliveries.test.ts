import { describe, expect, it } from 'vitest';
import type { EventTarget } from '../../../src/trigger/drain/read-event.ts';
import { LeftDeliveries } from '../../../src/trigger/drain/left-deliveries.ts';
import type { Ticket } from '../../../src/trigger/drain/ticket.ts';
import { HandClock } from '../../support/hand-clock.ts';

const target = (resource: string): EventTarget => ({ kind: null, resource, key: '1', updated: null, isDelete: false });
const [CONTENT, IMAGES] = [target('content'), target('images')];

function ticket(seq: number, served: EventTarget[] = []): Ticket {
  const found = { kind: null, resource: null, record_id: null };
  return { seq, attempts: 0, receivedAt: 0, events: 1, found, left: 0, served, fault: null, remark: null };
}

function leaving() {
  const clock = new HandClock();
  const released: number[][] = [];
  const left = new LeftDeliveries({
    clock,
    signal: new AbortController().signal,
    release: (tickets) => released.push(tickets.map(({ seq }) => seq)),
  });
  return { clock, left, released };
}

describe('deliveries that are left to another process', () => {
  it('are released together when their moment has come', async () => {
    const { clock, left, released } = leaving();
    left.add(ticket(1), clock.now() + 5_000);
    left.add(ticket(2), clock.now() + 5_000);
    left.add(ticket(3), clock.now() + 9_000);
    expect(left.size).toBe(3);
    await clock.advance(5_000);
    expect([released, left.size]).toEqual([[[1, 2]], 1]);
  });

  it('keep in mind what this process has served of them, until they are settled or come again', () => {
    const { clock, left } = leaving();
    left.add(ticket(1, [CONTENT]), clock.now());
    const both = [CONTENT, IMAGES];
    expect(left.split({ seq: 1, events: 1 }, both)).toEqual({ open: [IMAGES], served: [CONTENT] });
    expect(left.split({ seq: 1, events: 2 }, both)).toEqual({ open: both, served: [] });
    left.forget(1);
    expect(left.split({ seq: 1, events: 1 }, both)).toEqual({ open: both, served: [] });
  });
});
