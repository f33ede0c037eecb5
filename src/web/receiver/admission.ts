import type { IncomingHttpHeaders } from 'node:http';
import { type SignatureScheme, hasToken } from '../../source/signature-scheme.ts';
import { challengeMethods } from '../../trigger/signature/challenges.ts';
import type { RefusalReason } from './answer.ts';
import { DECODERS, FORM_TYPE, mediaTypeIn } from './body.ts';

/** Requests that a source takes at all. */
export interface Admission {
  methods: ReadonlySet<string>;
  isTaken: (contentType: string) => boolean;
  maxBody: number;
  /** True if the scheme signs the fields of a form. */
  signsFields: boolean;
}

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^-]{1,80}\+json)$/;

/**
 * JSON; forms if the scheme signs the body or its fields; plain text if the sender verifies the address with it. Browsers
 * send the latter two to any address without a preflight request, but cannot sign them.
 */
export function admissionOf(scheme: SignatureScheme, maxBody: number): Admission {
  const others = new Set<string>();
  const signsFields = hasToken(scheme.signed, 'form_sorted');
  if (signsFields || hasToken(scheme.signed, 'body', 'body_sha256')) others.add(FORM_TYPE);
  if (asksInPlainText(scheme.challenge)) others.add('text/plain');
  return {
    methods: new Set(['POST', ...challengeMethods(scheme)]),
    isTaken: (type) => JSON_TYPE.test(type) || others.has(type),
    maxBody,
    signsFields,
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
    if (!isTaken(mediaTypeIn(headers['content-type']))) return 'content_type';
    if (!DECODERS.has(headers['content-encoding'] ?? 'identity')) return 'content_encoding';
  }
  return Number(headers['content-length'] ?? 0) > maxBody ? 'too_large' : null;
}
