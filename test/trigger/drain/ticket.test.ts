import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { BEHIND, faultOf } from '../../../src/trigger/drain/faults.ts';
import { noteFault, settlementOf, ticketFor, type Ticket } from '../../../src/trigger/drain/ticket.ts';

const NOW = Date.parse('2026-11-20T08:00:00Z');
const LIMITS = { attempts: 3, keepMs: 60_000 };
const RECORD = faultOf(new SyncError('bad_json', 'no JSON', { recovery: 'stop' }));
const PASSING = faultOf(new SyncError('unreachable', 'gone', { recovery: 'retry' }));

function ticketOf(changes: { attempts?: number; ageMs?: number } = {}): Ticket {
  const { attempts = 0, ageMs = 0 } = changes;
  const row = {
    seq: 7,
    delivery_id: 'a',
    received_at: timestampText(NOW - ageMs),
    headers: '{}',
    body: Buffer.from(''),
  };
  const rest = { state: 'waiting', due_at: null, finished_at: null, reason: null, kind: null, resource: null } as const;
  const counts = { attempts, repeats: 0, events: 2, size: 0, differs_from: null, record_id: null };
  const target = { kind: 'updated', resource: 'content', key: '1', updated: null, isDelete: false };
  return ticketFor({ ...row, ...rest, ...counts }, [target]);
}

function settled(ticket: Ticket) {
  return settlementOf(ticket, LIMITS, NOW, () => 0);
}

describe('the state of a delivery after an attempt', () => {
  it('is done without a fault, for the events that were read', () => {
    const found = { kind: 'updated', resource: 'content', record_id: '1' };
    expect(settled(ticketOf())).toMatchObject({ seq: 7, state: 'done', readEvents: 2, reason: null, ...found });
  });

  it('is waiting after a fault of the record, and dead after so many', () => {
    const [first, last] = [ticketOf(), ticketOf({ attempts: 2 })];
    for (const ticket of [first, last]) noteFault(ticket, RECORD);
    expect(settled(first)).toMatchObject({ state: 'waiting', attempts: 1, reason: 'no JSON [bad_json]' });
    expect(settled(last)).toMatchObject({ state: 'dead', attempts: 3, due_at: null });
  });

  it('is waiting after a passing fault at no cost, until the delivery is too old', () => {
    const [young, old] = [ticketOf({ attempts: 2, ageMs: 60_000 }), ticketOf({ ageMs: 60_001 })];
    for (const ticket of [young, old]) noteFault(ticket, PASSING);
    expect(settled(young)).toMatchObject({ state: 'waiting', attempts: 2 });
    expect(settled(old)).toMatchObject({ state: 'dead' });
  });

  it('is never dead for a lagging replica alone, nor while one of several faults may pass', () => {
    const [behind, both] = [ticketOf({ attempts: 2 }), ticketOf({ attempts: 2 })];
    noteFault(behind, BEHIND);
    noteFault(both, PASSING);
    noteFault(both, RECORD);
    expect(settled(behind)).toMatchObject({ state: 'waiting', attempts: 2 });
    expect(settled(both)).toMatchObject({ state: 'waiting', attempts: 2 });
  });
});
