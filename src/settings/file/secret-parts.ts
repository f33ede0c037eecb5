/** Shorter ones say nothing, or are found by chance. */
const LEAST_LENGTH = 8;

/** The secrets, and their parts that give as much away and may stand alone somewhere. */
export function withSecretParts(secrets: readonly string[]): string[] {
  const parts = secrets.flatMap(partsOf).filter((part) => part.length >= LEAST_LENGTH);
  return [...new Set([...secrets, ...parts])];
}

function partsOf(secret: string): string[] {
  // The address of a monitor, as it is asked: without its host, and without the place of the resource's name.
  if (/^https?:\/\//.test(secret)) return secret.replace(/^https?:\/\/[^/?#]+/, '').split('{resource}');
  // The key without the prefix that says how it is written; the password of `user:password`.
  const part = /^(?:wh(?:sec|pk)_|[^:]+:)([^]+)$/.exec(secret)?.[1];
  return part === undefined ? [] : [part];
}
