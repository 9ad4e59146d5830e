// X509Certificate: the fields of a certificate, and its checks. The worker parses it.
import type { KeyObjectMetadata } from "../../../protocol/crypto-messages.ts";
import { CERTIFICATE_FIELDS } from "../../../protocol/guest-messages.ts";
import { Buffer } from "../buffer/node-buffer.ts";
import { callWorker } from "./crypto-call.ts";
import { type Data, dataBytes } from "./node-crypto-data.ts";
import { type KeyObject, keyHandle, toPublicKeyObject } from "./node-keys.ts";

interface Facts {
  readonly publicKey: KeyObjectMetadata;
  /** Base64 of the DER encoding. */
  readonly raw: string;
  readonly validFrom: string;
  readonly validTo: string;
  readonly [name: string]: unknown;
}

export class X509Certificate {
  readonly #metadata: Facts;
  readonly #raw: Buffer;
  readonly #publicKey: KeyObject;

  constructor(data: Data) {
    this.#metadata = callWorker("readCertificate", [], [dataBytes(data, "buffer")]) as Facts;
    this.#raw = Buffer.from(this.#metadata.raw, "base64");
    this.#publicKey = toPublicKeyObject(this.#metadata.publicKey);
  }

  static {
    for (const name of CERTIFICATE_FIELDS) {
      const get = function (this: X509Certificate): unknown {
        return this.#metadata[name];
      };
      Object.defineProperty(X509Certificate.prototype, name, { get, configurable: true });
    }
  }

  get publicKey(): KeyObject {
    return this.#publicKey;
  }
  get raw(): Buffer {
    return this.#raw;
  }
  get validFromDate(): Date {
    return new Date(this.#metadata.validFrom);
  }
  get validToDate(): Date {
    return new Date(this.#metadata.validTo);
  }

  #request(field: string, subject: string | number | null, other?: X509Certificate): unknown {
    return (
      callWorker("askCertificate", [field, subject], other === undefined ? [this.#raw] : [this.#raw, other.#raw]) ??
      undefined
    );
  }
  checkEmail(email: string): unknown {
    return this.#request("checkEmail", email);
  }
  checkHost(name: string): unknown {
    return this.#request("checkHost", name);
  }
  checkIP(address: string): unknown {
    return this.#request("checkIP", address);
  }
  checkIssued(other: X509Certificate): unknown {
    return this.#request("checkIssued", null, other);
  }
  checkPrivateKey(key: KeyObject): unknown {
    return this.#request("checkPrivateKey", keyHandle(key));
  }
  verify(key: KeyObject): unknown {
    return this.#request("verify", keyHandle(key));
  }
  toString(): string {
    const lines = this.#raw.toString("base64").match(/.{1,64}/g) ?? [];
    return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
  }
  toJSON(): string {
    return this.toString();
  }
}
