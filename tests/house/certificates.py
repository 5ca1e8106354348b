"""An authority and a certificate for this machine, for tests of encrypted connections."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make(folder, address="127.0.0.1"):
    """Files ``authority.pem``, ``cert.pem`` and ``key.pem`` for the name localhost and an address, in a folder."""
    folder.mkdir(exist_ok=True)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
    now = datetime.now(UTC)

    def begun(subject, public):
        return (
            x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False)
        )

    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
         "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    authority = (
        begun(issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .add_extension(x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), False)
        .sign(authority_key, hashes.SHA256())
    )
    here = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        begun(here, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address(address))]), False
        )
        .sign(authority_key, hashes.SHA256())
    )
    (folder / "authority.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return folder
