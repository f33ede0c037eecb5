import { styleText } from 'node:util';
import type { CliContext } from './context.ts';

/** What a word means, for its colour. */
export type Tone = 'good' | 'look' | 'bad' | 'quiet' | 'plain';

/** Colours a text by what it means. */
export type Paint = (text: string, tone: Tone) => string;

const STYLES = { good: 'green', look: 'yellow', bad: 'red', quiet: 'dim' } as const;

/**
 * Colours for what is printed on stdout: only on a terminal, and not where `NO_COLOR` is set; anywhere where
 * `FORCE_COLOR` is.
 */
export function painter({ stdout }: Pick<CliContext, 'stdout'>): Paint {
  return (text, tone) => (tone === 'plain' ? text : styleText(STYLES[tone], text, { stream: stdout }));
}

const STATUS_TONES: Readonly<Record<string, Tone>> = {
  ok: 'good',
  partial: 'look',
  deferred: 'look',
  interrupted: 'look',
  failed: 'bad',
};

/** The tone of how a run stands or has ended; plain for any other word. */
export function toneOfStatus(status: string): Tone {
  return STATUS_TONES[status] ?? 'plain';
}
