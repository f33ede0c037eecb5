import { describe, expect, it } from 'vitest';
import { SettlementWriter } from '../../../src/trigger/drain/drain.ts';
import type { Settlement } from '../../../src/warehouse/inbox.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { settlement } from '../../warehouse/deliveries.ts';

/** A writer whose steps are written down, and fail as often as is asked. */
function writing(failures: { persist?: number; settle?: number } = {}) {
  const { persist = 0, settle = 0 } = failures;
  const left = { persist, settle };
  const steps: string[] = [];
  const written: Settlement[] = [];
  const clock = new HandClock();
  const stopping = new AbortController();
  const step = async (name: 'persist' | 'settle'): Promise<void> => {
    steps.push(name);
    left[name] -= 1;
    if (left[name] >= 0) throw new Error(`no ${name}`);
  };
  const writer = new SettlementWriter({
    inbox: {
      settle: async (settlements) => {
        await step('settle');
        written.push(...settlements);
      },
      waiting: () => Promise.resolve([]),
    },
    persist: () => step('persist'),
    secrets: ['s3cret-token'],
    clock,
    signal: stopping.signal,
    stored: (stored) => steps.push(`stored ${stored.map(({ seq }) => seq).join(' ')}`),
    failed: () => steps.push('failed'),
  });
  return { writer, clock, steps, written, stop: () => stopping.abort() };
}

describe('settlements of deliveries', () => {
  it('are written after the rows are durable, those of one moment together', async () => {
    const { writer, steps } = writing();
    writer.add(settlement(1, 'done'));
    writer.add(settlement(2, 'ignored'));
    await writer.idle();
    expect(steps).toEqual(['persist', 'settle', 'stored 1 2']);
  });

  it('hold no secret, whatever the service answered', async () => {
    const { writer, written } = writing();
    writer.add(settlement(1, 'dead', { reason: 'a 400 that says s3cret-token', record_id: 's3cret-token' }));
    await writer.idle();
    expect(JSON.stringify(written)).not.toContain('s3cret-token');
    expect(written).toMatchObject([{ seq: 1, state: 'dead', kind: 'content.updated' }]);
  });

  it('are tried again until rows and inbox can be written', async () => {
    const { writer, clock, steps } = writing({ persist: 1, settle: 1 });
    writer.add(settlement(1, 'done'));
    await clock.advance(1_000);
    expect(steps).toEqual(['persist', 'failed', 'persist', 'settle', 'failed']);
    await clock.advance(2_000);
    await writer.idle();
    expect(steps.slice(5)).toEqual(['persist', 'settle', 'stored 1']);
  });

  it('are left to the next process if they cannot be written while the drain stops', async () => {
    const { writer, clock, steps, stop } = writing({ settle: 9 });
    writer.add(settlement(1, 'done'));
    await clock.advance(10);
    stop();
    await writer.idle();
    expect(steps).toEqual(['persist', 'settle', 'failed']);
  });
});
