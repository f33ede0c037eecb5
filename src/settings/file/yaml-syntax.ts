import type { ErrorCode } from 'yaml';

/**
 * What to say for each kind of YAML fault. The library's own messages are not used: some quote the text that they
 * could not read, and that text may be a secret.
 */
export const SYNTAX_MESSAGES: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: 'expected no tag or anchor on an alias',
  BAD_ALIAS: 'expected the name of an anchor after *; quote a text that begins with * or &',
  BAD_COLLECTION_TYPE: 'expected a map or list that fits its tag',
  BAD_DIRECTIVE: 'expected no %directive here; quote a text that begins with %',
  BAD_DQ_ESCAPE: 'expected a known escape after \\ in double quotes; single quotes need none',
  BAD_INDENT: 'expected the same indentation as the lines beside it, or a closing ] or } before this',
  BAD_PROP_ORDER: 'expected tag and anchor before their value',
  BAD_SCALAR_START: 'expected a text in quotes, because it begins with a reserved character',
  BLOCK_AS_IMPLICIT_KEY: 'expected one "key: value" on a line; quote a text that contains ": "',
  BLOCK_IN_FLOW: 'expected no block inside [ ] or { }',
  DUPLICATE_KEY: 'expected each key once, got the same key again',
  IMPOSSIBLE: 'expected readable YAML',
  KEY_OVER_1024_CHARS: 'expected a key of at most 1024 characters',
  MISSING_CHAR: 'expected a closing quote, bracket or a ":" that is missing',
  MULTILINE_IMPLICIT_KEY: 'expected a key on one line; a ":" may be missing',
  MULTIPLE_ANCHORS: 'expected at most one anchor',
  MULTIPLE_DOCS: 'expected one document, got a second one after ---',
  MULTIPLE_TAGS: 'expected at most one tag',
  NON_STRING_KEY: 'expected a text as key (quote it)',
  RESOURCE_EXHAUSTION: 'expected fewer levels of nesting',
  TAB_AS_INDENT: 'expected spaces as indentation, got a tab',
  TAG_RESOLVE_FAILED: 'expected no tag such as !name; quote a text that begins with !',
  UNEXPECTED_TOKEN: 'expected the value to end here; quote a text with special characters',
};
