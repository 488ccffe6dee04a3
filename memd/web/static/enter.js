// Sends the token that stands behind the # of the address, and takes it out of the address.

const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", "/enter");
  const form = document.getElementById("enter");
  form.elements.token.value = token;
  form.submit();
}
