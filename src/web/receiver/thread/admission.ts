import type { IncomingHttpHeaders } from 'node:http';
import type { SignatureScheme } from '../../../source/signature-scheme.ts';
import { hasToken } from '../../../source/signature-template.ts';
import { challengeMethods } from '../../../trigger/signature/challenges.ts';
import type { RefusalReason } from './answer.ts';

/** Requests that a source takes at all. */
export interface Admission {
  methods: ReadonlySet<string>;
  isTaken: (contentType: string) => boolean;
  maxBody: number;
}

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^-]{1,80}\+json)$/;

/**
 * JSON; forms if the scheme signs their fields; plain text if the sender asks with it whether the address is right. Browsers send the latter two to any address without asking, JSON they do not.
 */
export function admissionOf(scheme: SignatureScheme, maxBody: number): Admission {
  const others = new Set<string>();
  if (hasToken(scheme.signed, 'form_sorted')) others.add('application/x-www-form-urlencoded');
  if (asksInPlainText(scheme.challenge)) others.add('text/plain');
  return {
    methods: new Set(['POST', ...challengeMethods(scheme)]),
    isTaken: (type) => JSON_TYPE.test(type) || others.has(type),
    maxBody,
  };
}

function asksInPlainText(challenge: SignatureScheme['challenge']): boolean {
  if (challenge === null || typeof challenge === 'string') return challenge === 'msgraph';
  return challenge.method.includes('POST') && challenge.echo.from === 'query';
}

/** Why a request is refused before its body is read; null if it is not. */
export function refusalBeforeBody(
  { methods, isTaken, maxBody }: Admission,
  method: string,
  headers: IncomingHttpHeaders,
): RefusalReason | null {
  if (!methods.has(method)) return 'method';
  if (method !== 'GET') {
    const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
    if (!isTaken(type.trim().toLowerCase())) return 'content_type';
    // The bytes are signed as they are sent: nobody compresses them.
    if ((headers['content-encoding'] ?? 'identity') !== 'identity') return 'content_type';
  }
  return Number(headers['content-length'] ?? 0) > maxBody ? 'too_large' : null;
}
