import type { AnswerHeaders } from '../../http/outcome/outcome-row.ts';
import { snippet } from '../../http/body/safe-text.ts';
import type { Subject } from '../stage.ts';

const LIMITS = /^(?:x-)?rate-?limit|^retry-after$/;

/** What the answers show that a profile says nothing about, as sentences. */
export function serviceNotes(subjects: readonly Subject[]): string[] {
  const headers = subjects[0]?.first.headers ?? {};
  const limits = Object.keys(headers).filter((name) => LIMITS.test(name));
  const told = limits.map((name) => `${name}: ${textOf(headers, name)}`).join(', ');
  return [
    limits.length === 0
      ? 'limits: the answers tell none; the pace is learned from how the service answers'
      : `limits: ${told}; they are read by themselves`,
    ...(textOf(headers, 'etag') === '' ? [] : ['the answers have an ETag']),
    ...['deprecation', 'sunset'].flatMap((name) =>
      textOf(headers, name) === '' ? [] : [`the answers say ${name}: ${textOf(headers, name)}`],
    ),
    'webhooks: not tried, because that would change something there; see webhooks in the reference',
  ];
}

function textOf(headers: AnswerHeaders, name: string): string {
  return snippet([headers[name] ?? ''].flat().join(', '), 80);
}
